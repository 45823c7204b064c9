//! Numbers as people read them.

/// Bytes with a binary unit and three digits: `1.50 GiB`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} bytes") } else { format!("{} {}", three_digits(value), UNITS[unit]) }
}

/// A count with a decimal unit and three digits: `34.4 GFLOP` for `count(…, "FLOP")`.
pub(super) fn count(value: f64, unit: &str) -> String {
    const PREFIXES: [&str; 6] = ["", "K", "M", "G", "T", "P"];
    let mut value = value;
    let mut prefix = 0;
    while value >= 1000.0 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    format!("{} {}{unit}", three_digits(value), PREFIXES[prefix])
}

/// A time with a unit between nanoseconds and minutes: `12.3 ms`.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 120.0 => format!("{} min", three_digits(s / 60.0)),
        s if s >= 1.0 => format!("{} s", three_digits(s)),
        s if s >= 1e-3 => format!("{} ms", three_digits(s * 1e3)),
        s if s >= 1e-6 => format!("{} µs", three_digits(s * 1e6)),
        s => format!("{} ns", three_digits(s * 1e9)),
    }
}

/// A noun after its number: `1 graph`, `2 graphs`.
pub(super) fn plural(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("{count} {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// Extents: `1×16×4096`.
pub(super) fn by<T: ToString>(extents: &[T]) -> String {
    extents.iter().map(T::to_string).collect::<Vec<_>>().join("×")
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_at_their_bounds() {
        assert_eq!([bytes(1023), bytes(1024), bytes(3 << 29)], ["1023 bytes", "1.00 KiB", "1.50 GiB"]);
        assert_eq!([count(999.0, "FLOP"), count(34.36e9, "FLOP")], ["999 FLOP", "34.4 GFLOP"]);
        assert_eq!([seconds(0.0123), seconds(9e-7), seconds(150.0)], ["12.3 ms", "900 ns", "2.50 min"]);
        assert_eq!([plural(1, "graph"), plural(0, "graph")], ["1 graph", "0 graphs"]);
    }
}
