//! Attention as older frontends wrote it, rewritten to today's keys and tags (section 6.5).

use serde_json::{Value, json};

use super::error::Failure;
use super::fields::{Fields, Object};
use super::schema::canonical_tag;

/// Keys that newer versions replaced.
const REPLACED: [&str; 4] = ["is_inference", "causal_mask", "causal_mask_bottom_right", "sliding_window_length"];

/// The tag and the members of an attention node as frontend 1.32 would write them; `None` for other tags.
pub(super) fn modernize(tag: &str, node: &Object) -> Result<Option<(&'static str, Object)>, Failure> {
    let tag = match canonical_tag(tag) {
        "SDPA" => "SDPA",
        "SDPA_FP8_FWD" => "SDPA_FP8_FWD",
        "SDPA_MXFP8_FWD" => "SDPA_MXFP8_FWD",
        "SDPA_BWD" => "SDPA_BWD",
        "SDPA_FP8_BWD" => "SDPA_FP8_BWD",
        "SDPA_MXFP8_BWD" => "SDPA_MXFP8_BWD",
        _ => return Ok(None),
    };
    let mut modern = node.clone();
    modernize_masks(Fields(node), &mut modern)?;
    if let Some(is_inference) = Fields(node).boolean("is_inference")? {
        set_if_unset(&mut modern, "generate_stats", json!(!is_inference));
    }
    REPLACED.iter().for_each(|key| drop(modern.remove(*key)));
    let tag = forward_tag(tag, Fields(&modern))?;
    match tag {
        "SDPA" => set_if_unset(&mut modern, "mma_core_mode", json!("HALF")),
        "SDPA_FP8_FWD" | "SDPA_MXFP8_FWD" => set_if_unset(&mut modern, "mma_core_mode", json!("FP8_E4M3")),
        _ => {}
    }
    Ok(Some((tag, modern)))
}

/// Causal means `right_bound: 0`, from the top left or the bottom right; a window of length w means `left_bound: w`.
fn modernize_masks(fields: Fields<'_>, modern: &mut Object) -> Result<(), Failure> {
    let is_bottom_right = fields.boolean("causal_mask_bottom_right")?.unwrap_or(false);
    if is_bottom_right || fields.boolean("causal_mask")?.unwrap_or(false) {
        set_if_unset(modern, "right_bound", json!(0));
    }
    if is_bottom_right {
        modern.insert("diagonal_alignment".to_owned(), json!("BOTTOM_RIGHT"));
    }
    if let Some(length) = fields.integer("sliding_window_length")? {
        set_if_unset(modern, "left_bound", json!(length));
    }
    Ok(())
}

fn set_if_unset(object: &mut Object, key: &str, value: Value) {
    if Fields(object).get(key).is_none() {
        object.insert(key.to_owned(), value);
    }
}

/// Between 1.15 and 1.21 FP8 attention had the tag of the 16-bit kind, and an FP8 `mma_core_mode`.
fn forward_tag(tag: &'static str, fields: Fields<'_>) -> Result<&'static str, Failure> {
    let is_fp8 = fields.text("mma_core_mode")?.is_some_and(|mode| mode.starts_with("FP8_"));
    Ok(match tag {
        "SDPA" if fields.boolean("is_mxfp8")?.unwrap_or(false) => "SDPA_MXFP8_FWD",
        "SDPA" if is_fp8 => "SDPA_FP8_FWD",
        tag => tag,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modern(tag: &str, node: &Value) -> (&'static str, Value) {
        let (tag, node) = modernize(tag, node.as_object().unwrap()).unwrap().unwrap();
        (tag, Value::Object(node))
    }

    #[test]
    fn masks_of_older_versions_become_bounds() {
        let old = json!({"causal_mask": true, "is_inference": false, "sliding_window_length": 64});
        let new = json!({"right_bound": 0, "generate_stats": true, "left_bound": 64, "mma_core_mode": "HALF"});
        assert_eq!(modern("SDPA_FWD", &old), ("SDPA", new));
        let old = json!({"causal_mask_bottom_right": true, "is_inference": null});
        assert_eq!(modern("SDPA_BWD", &old).1, json!({"right_bound": 0, "diagonal_alignment": "BOTTOM_RIGHT"}));
        let both = json!({"causal_mask": true, "right_bound": 4});
        assert_eq!(modern("SDPA_BWD", &both).1, json!({"right_bound": 4}));
    }

    #[test]
    fn fp8_is_a_tag_of_its_own() {
        assert_eq!(modern("SDPA_FWD", &json!({"mma_core_mode": "FP8_E4M3"})).0, "SDPA_FP8_FWD");
        assert_eq!(modern("SDPA", &json!({"is_mxfp8": true})).0, "SDPA_MXFP8_FWD");
        assert_eq!(modern("SDPA_FP8_FWD", &json!({})).1["mma_core_mode"], "FP8_E4M3");
        assert_eq!(modernize("MATMUL", &Object::new()), Ok(None));
    }
}
