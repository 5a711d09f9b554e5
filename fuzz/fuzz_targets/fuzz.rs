//! Fuzzes the target that the environment variable `TARGET` names, under libFuzzer, which takes all arguments for itself.
//! Without such a target it prints the names of all.

#![no_main]

use std::sync::LazyLock;

use peerlane_fuzz::{Target, target, targets};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let named = std::env::var("TARGET").ok().and_then(|name| target(&name));
    named.unwrap_or_else(|| {
        targets().for_each(|target| println!("{}", target.name));
        std::process::exit(2)
    })
});

libfuzzer_sys::fuzz_target!(init: LazyLock::force(&TARGET), |data: &[u8]| TARGET.run(data));
