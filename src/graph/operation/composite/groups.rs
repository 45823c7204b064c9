//! Channels in groups of consecutive ones: axis 1 of a tensor seen as two.

/// A number of channels, and of their groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChannelGroups {
    pub(super) channels: i64,
    pub(super) groups: i64,
}

impl ChannelGroups {
    /// Whether each group has as many channels, one or more.
    pub(super) fn are_equal(self) -> bool {
        self.groups >= 1 && self.channels % self.groups == 0
    }

    /// Extents with the groups and the channels of one in place of the channels. What has another extent on axis 1, one element or one a
    /// group, has it along the groups.
    pub(super) fn split(self, dim: &[i64]) -> Vec<i64> {
        let Some((&images, [along, spatial @ ..])) = dim.split_first() else { return dim.to_vec() };
        let parts = if *along == self.channels { [self.groups, self.channels / self.groups] } else { [*along, 1] };
        [&[images], &parts[..], spatial].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_split_and_what_is_not_of_channels_lies_along_groups() {
        let groups = ChannelGroups { channels: 12, groups: 3 };
        assert_eq!(groups.split(&[2, 12, 5, 7]), [2, 3, 4, 5, 7]);
        assert_eq!(groups.split(&[2, 3, 1]), [2, 3, 1, 1]);
        assert_eq!(groups.split(&[1, 1, 1]), [1, 1, 1, 1]);
        assert_eq!(groups.split(&[1]), [1], "there are no channels");
    }

    #[test]
    fn groups_have_the_same_number_of_channels() {
        let equal = |groups| ChannelGroups { channels: 12, groups }.are_equal();
        assert_eq!([1, 3, 12].map(equal), [true; 3]);
        assert_eq!([-3, 0, 5, 24].map(equal), [false; 4]);
    }
}
