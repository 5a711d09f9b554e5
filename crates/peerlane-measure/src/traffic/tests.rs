use peerlane_model::model::{Assume, Model};
use peerlane_read::catalogue::{self, Parts};

use super::*;

fn with<T>(system: &str, run: impl FnOnce(&Model) -> T) -> T {
    let machine = catalogue::system(system).unwrap().unwrap();
    run(&Model::assuming(&machine, Parts::embedded(), Assume::Usual))
}

#[test]
fn rates_are_rises_by_time_and_a_counter_that_fell_says_nothing() {
    let at = |seconds: f64, kib: u64, bytes: u64, port: u64| Sample {
        at: Seconds::new(seconds),
        nvlinks: [("GPU0".to_owned(), vec![Some([kib, 0]), None])].into(),
        nvlink: [("GPU0".to_owned(), [bytes, 2 * bytes])].into(),
        pcie: [("GPU0".to_owned(), [7.0, 8.0])].into(),
        ports: [("eth0".to_owned(), Port { bytes: [port, port], address: None })].into(),
        ..Sample::default()
    };
    let rates = at(3.0, 2048, 500, 100).since(&at(1.0, 0, 100, 300));
    assert_eq!(rates.nvlinks["GPU0"], [Some([1024.0 * 1024.0, 0.0]), None]);
    assert_eq!(rates.nvlink["GPU0"], [200.0 * 1024.0, 400.0 * 1024.0]);
    assert_eq!(rates.pcie["GPU0"], [7.0, 8.0], "a rate already");
    assert!(rates.ports.is_empty(), "the port was reset");
    // no time between them
    assert!(at(1.0, 9, 900, 900).since(&at(1.0, 0, 0, 0)).nvlink.is_empty());
}

#[test]
fn each_nvlink_keeps_its_rate_until_it_is_read_again() {
    let at = |seconds: f64, kib: Option<u64>| Sample {
        at: Seconds::new(seconds),
        nvlinks: kib.map(|kib| ("GPU0".to_owned(), vec![Some([kib, kib])])).into_iter().collect(),
        ..Sample::default()
    };
    let mut follower = Follower::default();
    let mut rate =
        |sample: Sample| follower.rates(&sample).nvlinks.get("GPU0").map(|links| links[0].unwrap()[0] / 1024.0);
    let rates = [at(0.0, Some(5)), at(1.0, None), at(5.0, Some(55)), at(6.0, None), at(10.0, Some(55))].map(&mut rate);
    assert_eq!(rates, [None, None, Some(10.0), Some(10.0), Some(0.0)]);
}

#[test]
fn what_links_should_carry_is_what_a_copy_alone_gets() {
    with("h200x4-vm", |model| {
        let gauges = gauges(model);
        assert_eq!(gauges.iter().map(|gauge| gauge.kind).filter(|kind| *kind == Kind::Nvlink).count(), 4);
        let nvlink = gauges.iter().find(|gauge| gauge.kind == Kind::Nvlink).unwrap();
        assert_eq!(nvlink.label, "NVLink 4 x18");
        // 18 links of 25 GB/s, of which a copy gets some nine tenths
        let [sent, received] = nvlink.carries.unwrap();
        assert!((360e9..450e9).contains(&sent) && sent == received, "{sent}");
        let pcie = gauges.iter().find(|gauge| gauge.kind == Kind::Pcie).unwrap();
        assert!(pcie.label.starts_with("PCIe 5.0 x16"), "{}", pcie.label);
        assert!(pcie.carries.unwrap().iter().all(|rate| (50e9..63e9).contains(rate)), "{pcie:?}");
    });
    // a mesh, in which some neighbours have two links and others one: what one carries, six times
    with("dgx-1v", |model| {
        let nvlink = gauges(model).into_iter().find(|gauge| gauge.kind == Kind::Nvlink).unwrap();
        assert_eq!(nvlink.label, "NVLink 2 x6");
        assert!((130e9..150e9).contains(&nvlink.carries.unwrap()[0]), "{nvlink:?}");
    });
}

#[test]
fn simulated_traffic_is_conserved_and_never_above_what_links_carry() {
    for system in ["h200x4-vm", "hgx-h100", "dgx-1v", "7gforce", "mi300x-8"] {
        with(system, |model| {
            let gauges = gauges(model);
            let mut machine = SimulatedTraffic::new(model, Seconds::new(1.0));
            let mut follower = Follower::default();
            follower.rates(&machine.sample());
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..30 {
                let now = machine.sample();
                let rates = follower.rates(&now);
                let fabric = &model.machine.fabric;
                for gauge in &gauges {
                    let Some((is, carries)) = gauge.rates(fabric, &now, &rates).zip(gauge.carries) else { continue };
                    for way in [0, 1] {
                        // a full duplex link carries both at once; rounding of whole bytes and KiB
                        assert!(is[way] <= carries[way] * 1.02 + 1e6, "{system}: {gauge:?} {is:?}");
                    }
                }
                // what GPUs send to each other by NVLink, others receive
                let sum =
                    |way: usize| -> f64 { rates.nvlinks.values().flatten().flatten().map(|link| link[way]).sum() };
                assert!((sum(0) - sum(1)).abs() <= 1e-3 * sum(0) + 1e6, "{system}: {} {}", sum(0), sum(1));
                seen.insert(now.plays.clone());
            }
            assert!(seen.len() >= 3, "{system}: {seen:?}");
        });
    }
}

#[test]
fn a_recording_is_read_back_and_a_cut_line_is_counted() {
    with("h200x4-vm", |model| {
        let machine = Subject::of_system("h200x4-vm", "h200x4-vm", catalogue::system_text("h200x4-vm").unwrap());
        let (schema, peerlane) = (SCHEMA.to_owned(), "0".to_owned());
        let head = Head { schema, peerlane, machine, began: 0, every: Seconds::new(1.0) };
        let mut traffic = SimulatedTraffic::new(model, head.every);
        let samples: Vec<Sample> = (0..8).map(|_| traffic.sample()).collect();
        let mut text = serde_json::to_string(&head).unwrap() + "\n";
        for sample in &samples {
            text += &(serde_json::to_string(sample).unwrap() + "\n");
        }
        assert!(looks_like_recording(&text));
        let read = Recording::read(&text).unwrap();
        assert_eq!((&read.head, &read.samples, read.unreadable), (&head, &samples, 0));
        assert_eq!(read.head.machine.machine().unwrap().fabric.nodes().len(), model.machine.fabric.nodes().len());
        let cut = Recording::read(&text[..text.len() - 40]).unwrap();
        assert_eq!((cut.samples.len(), cut.unreadable), (7, 1));
        let other = text.replacen("traffic/1", "traffic/9", 1);
        assert!(Recording::read(&other).unwrap_err().to_string().contains("peerlane/traffic/9"));
        assert!(Recording::read("{}").is_err());
    });
}

#[test]
fn a_port_belongs_to_the_adapter_at_its_place_or_of_its_name() {
    with("hgx-h100", |model| {
        let fabric = &model.machine.fabric;
        let port = |bytes: u64| Port { bytes: [bytes, 2 * bytes], address: None };
        let sample = |bytes: u64, seconds: f64| Sample {
            at: Seconds::new(seconds),
            ports: [("mlx5_0/1".to_owned(), port(bytes)), ("eth7".to_owned(), port(9 * bytes))].into(),
            ..Sample::default()
        };
        let now = sample(1000, 1.0);
        let rates = now.since(&sample(0, 0.0));
        let nic = fabric.find("mlx5_0").unwrap();
        let gauges = gauges(model);
        let of = |node| gauges.iter().find(|gauge| gauge.node == node).unwrap().rates(fabric, &now, &rates);
        assert_eq!(of(nic), Some([1000.0, 2000.0]));
        assert_eq!(of(fabric.find("mlx5_1").unwrap()), None);
    });
}
