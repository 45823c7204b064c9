//! "Did you mean": the known spelling nearest to an unknown one.

/// `, did you mean "X"?` for a known spelling that is one edit away or differs in case only, else nothing
/// (FEJ-11, FEJ-12).
pub(super) fn suggestion<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let (mut other_case, mut one_edit) = (None, None);
    for known in known {
        if known.eq_ignore_ascii_case(unknown) {
            other_case = other_case.or(Some(known));
        } else if one_edit.is_none() && is_one_edit_away(unknown, known) {
            one_edit = Some(known);
        }
    }
    let hint = |known: &str| format!(", did you mean \"{}\"?", known.escape_debug());
    other_case.or(one_edit).map(hint).unwrap_or_default()
}

/// Whether one inserted, deleted or replaced character, or one swap of neighbours, leads from `a` to `b`. In linear time, as no
/// edit distance is computed: tensors' names, both from a file, may be megabytes long.
fn is_one_edit_away(a: &str, b: &str) -> bool {
    if a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let prefix = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    match (a, b) {
        ([], rest) | (rest, []) => rest.len() == 1,
        ([x, tail_a @ ..], [y, tail_b @ ..]) => tail_a == tail_b || tail_a == b || a == tail_b || swapped(a, b, *x, *y),
    }
}

fn swapped(a: &[u8], b: &[u8], x: u8, y: u8) -> bool {
    a.len() == b.len() && a.len() >= 2 && a[1] == y && b[1] == x && a[2..] == b[2..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_edit_is_an_insertion_deletion_replacement_or_swap() {
        for near in ["AD", "ADDD", "ABD", "DAD", "DD", "XADD", "ADX"] {
            assert!(is_one_edit_away(near, "ADD"), "{near}");
        }
        for far in ["", "A", "ADDDD", "BBD", "MUL"] {
            assert!(!is_one_edit_away(far, "ADD"), "{far}");
        }
    }

    #[test]
    fn case_alone_is_suggested_and_distance_two_is_not() {
        assert_eq!(suggestion("relu_fwd", ["ADD", "RELU_FWD"]), ", did you mean \"RELU_FWD\"?");
        assert_eq!(suggestion("b", ["A", "B"]), ", did you mean \"B\"?");
        assert_eq!(suggestion("RELX_FWX", ["ADD", "RELU_FWD"]), "");
    }
}
