//! Support surfaces as data, rules as code, reports.
