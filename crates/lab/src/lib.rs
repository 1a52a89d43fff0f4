//! Network namespaces, impairment relay and small servers for the demo, drills and tests.
