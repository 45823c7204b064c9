//! Sets of dims that a table of a support surface lists, such as `[1,1,1], [B,1,N], [B,M,N]`.

/// A set of dims in which every axis is either 1 or has its full extent; the spatial axes of a convolution tensor
/// count as one.
///
/// Membership is by value: dims belong if some listed form equals them once the actual extents are put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forms {
    /// Bit `m` says that the form `m` is listed; bit `g` of `m` says that axis group `g` has its full extent.
    set: u8,
}

/// Axis groups of a form: axis 0, axis 1, all others.
const GROUPS: usize = 3;

impl Forms {
    /// Reads forms of three letters each, separated by blanks: `1` and `s` stand for extents of 1, any other letter
    /// for the full extent, as in `docs/spec/support-surfaces.md` section 9.
    pub(super) const fn new(text: &str) -> Self {
        let letters = text.as_bytes();
        let mut set = 0;
        let mut start = 0;
        while start < letters.len() {
            let mut form = 0;
            let mut group = 0;
            while group < GROUPS {
                if !matches!(letters[start + group], b'1' | b's') {
                    form |= 1 << group;
                }
                group += 1;
            }
            set |= 1 << form;
            start += GROUPS + 1;
        }
        Self { set }
    }

    /// Whether dims are of a listed form; `full` are the full extents. Dims of another rank never are.
    pub(super) fn admit(self, dim: &[i64], full: &[i64]) -> bool {
        if dim.len() != full.len() || dim.len() < GROUPS {
            return false;
        }
        let bits = |holds: &dyn Fn(usize) -> bool| (0..GROUPS).fold(0, |bits, g| bits | u8::from(holds(g)) << g);
        let ones = bits(&|g| axes(g, dim).iter().all(|&extent| extent == 1));
        let fulls = bits(&|g| axes(g, dim) == axes(g, full));
        self.forms().any(|form| form & !fulls == 0 && !form & ALL_GROUPS & !ones == 0)
    }

    /// The listed dims with the actual extents put in: `[1,1,1], [1,1,64] or [1,32,64]`.
    pub(super) fn list(self, full: &[i64]) -> String {
        let mut dims: Vec<String> = Vec::new();
        for form in self.forms() {
            let extent = |axis: usize| if form >> axis.min(GROUPS - 1) & 1 == 1 { full[axis] } else { 1 };
            let text = dims_text(&(0..full.len()).map(extent).collect::<Vec<_>>());
            if !dims.contains(&text) {
                dims.push(text);
            }
        }
        one_of(&dims)
    }

    fn forms(self) -> impl Iterator<Item = u8> {
        (0..=ALL_GROUPS).filter(move |form| self.set >> form & 1 == 1)
    }
}

const ALL_GROUPS: u8 = (1 << GROUPS) - 1;

fn axes(group: usize, dim: &[i64]) -> &[i64] {
    if group < GROUPS - 1 { &dim[group..=group] } else { &dim[GROUPS - 1..] }
}

/// `[1,64,32]`.
pub(super) fn dims_text(dim: &[i64]) -> String {
    let extents: Vec<String> = dim.iter().map(i64::to_string).collect();
    format!("[{}]", extents.join(","))
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn one_of<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    match items.as_slice() {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPILOGUE_70: Forms = Forms::new("111 BM1 B1N BMN");

    #[test]
    fn dims_belong_by_value() {
        let full = [4, 32, 64];
        for dim in [[1, 1, 1], [4, 32, 1], [4, 1, 64], [4, 32, 64]] {
            assert!(EPILOGUE_70.admit(&dim, &full), "{dim:?}");
        }
        for dim in [[4, 1, 1], [1, 32, 1], [1, 1, 64], [1, 32, 64], [4, 32, 63], [4, 32, 65]] {
            assert!(!EPILOGUE_70.admit(&dim, &full), "{dim:?}");
        }
    }

    #[test]
    fn an_extent_of_one_is_both_full_and_broadcast() {
        assert!(EPILOGUE_70.admit(&[1, 1, 64], &[1, 32, 64]), "[1,1,N] is [B,1,N] where B is 1");
        assert!(EPILOGUE_70.admit(&[1, 1, 64], &[1, 1, 64]));
    }

    #[test]
    fn spatial_axes_go_together() {
        let forms = Forms::new("11s N1P 1Ks NKP");
        let full = [2, 8, 5, 7];
        assert!(forms.admit(&[1, 8, 1, 1], &full) && forms.admit(&[2, 1, 5, 7], &full));
        assert!(!forms.admit(&[2, 1, 5, 1], &full) && !forms.admit(&[2, 8, 1, 1], &full));
        assert!(forms.admit(&[2, 1, 5, 7, 3], &[2, 8, 5, 7, 3]));
    }

    #[test]
    fn other_ranks_never_belong() {
        assert!(!EPILOGUE_70.admit(&[1, 1], &[1, 1, 1]));
        assert!(!EPILOGUE_70.admit(&[1, 1, 1, 1], &[1, 1, 1]));
    }

    #[test]
    fn the_list_names_extents_once() {
        assert_eq!(EPILOGUE_70.list(&[1, 32, 64]), "[1,1,1], [1,32,1], [1,1,64] or [1,32,64]");
        assert_eq!(EPILOGUE_70.list(&[1, 1, 1]), "[1,1,1]");
    }
}
