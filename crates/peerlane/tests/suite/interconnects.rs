//! Interconnects that are rows of one table: what a system file says of them goes through every command's part of the library.

use peerlane::catalogue::{Parts, read_system, write_system};
use peerlane::cluster::Cluster;
use peerlane::export::nccl_xml;
use peerlane::machine::Machine;
use peerlane::matrix::{Engine, Operation};
use peerlane::model::{Assume, Model, PeerAccess, Transfer};
use peerlane::simulate::result::{Job, simulate};
use peerlane::units::Bytes;
use peerlane::what_if::{Edit, apply};

/// Two GPUs of no known part, joined so.
fn pair(link: &str) -> Machine {
    let text = format!(
        "name = \"pair\"\n[nodes]\nGPU0 = {{ kind = \"gpu\" }}\nGPU1 = {{ kind = \"gpu\" }}\n[[links]]\nbetween = [\"GPU0\", \"GPU1\"]\n{link}\n"
    );
    read_system(&text, "pair").unwrap_or_else(|e| panic!("{e}"))
}

/// Four GPUs at one switch of such links.
fn switched(link: &str) -> Machine {
    let gpus = ["GPU0", "GPU1", "GPU2", "GPU3"];
    let nodes: String = gpus.iter().map(|gpu| format!("{gpu} = {{ kind = \"gpu\" }}\n")).collect();
    let links: String = gpus.iter().map(|gpu| format!("[[links]]\nbetween = [\"sw\", \"{gpu}\"]\n{link}\n")).collect();
    let text = format!("name = \"switched\"\n[nodes]\nsw = {{ kind = \"nvswitch\" }}\n{nodes}{links}");
    read_system(&text, "switched").unwrap_or_else(|e| panic!("{e}"))
}

fn transfer(machine: &Machine, engine: Engine) -> Transfer {
    let find = |name| machine.fabric.find(name).unwrap();
    Transfer {
        source: find("GPU0"),
        destination: find("GPU1"),
        engine,
        op: Operation::Write,
        peer: PeerAccess::Enabled,
    }
}

fn rate(machine: &Machine, engine: Engine) -> Result<f64, String> {
    let model = Model::assuming(machine, Parts::embedded(), Assume::Usual);
    model.solve(&[transfer(machine, engine)]).map(|answers| answers[0].rate.gb()).map_err(|e| e.to_string())
}

fn class(machine: &Machine) -> String {
    let [a, b] = ["GPU0", "GPU1"].map(|name| machine.fabric.find(name).unwrap());
    machine.fabric.class(a, b).unwrap().to_string()
}

fn near(got: f64, expected: f64) {
    assert!((got / expected - 1.0).abs() < 1e-9, "{got} is not {expected}");
}

#[test]
fn ualink_is_predicted_mapped_explained_edited_and_simulated() {
    let machine = pair("ualink = \"200G x4\"");
    // a station: four lanes of 25 GB/s, of which 93 % are payload
    near(rate(&machine, Engine::Ce).unwrap(), 93.0);
    assert_eq!(class(&machine), "UAL4");
    near(rate(&pair("ualink = 16"), Engine::Sm).unwrap(), 372.0);
    let model = Model::new(&machine, Parts::embedded());
    let answer = model.solve(&[transfer(&machine, Engine::Ce)]).unwrap().remove(0);
    assert!(answer.bottleneck.contains("UALink 200G x4"), "{}", answer.bottleneck);
    let again = read_system(&write_system(&machine).unwrap(), "again").unwrap();
    assert_eq!(again.fabric.links()[0].kind, machine.fabric.links()[0].kind);
    assert!(nccl_xml::to_nccl_xml(&machine).contains("Links of UALink are left out"));
    let edit = Edit::new("GPU0-GPU1", "ualink 200G x8");
    near(rate(&apply(&machine, &[edit], Parts::embedded()).unwrap(), Engine::Ce).unwrap(), 186.0);
    let pod = switched("ualink = 16");
    assert_eq!(class(&pod), "UAL16");
    near(rate(&pod, Engine::Ce).unwrap(), 372.0);
    let job = Job::Workload("all-reduce:ring".parse().unwrap(), vec![Bytes(1 << 30)]);
    let (document, _) = simulate(&Cluster::single(pod), &job, false).unwrap();
    let busbw = document.points[0].busbw.unwrap();
    assert!((350.0..=372.0).contains(&busbw), "{busbw}");
}

#[test]
fn nvlink_6_has_a_rate_and_no_number_of_links() {
    let pod = switched("nvlink = \"gen6\"");
    assert_eq!(class(&pod), "NV?");
    near(rate(&pod, Engine::Ce).unwrap(), 1800.0 * 0.8);
    let model = Model::new(&pod, Parts::embedded());
    let [low, high] = model.interval(&[transfer(&pod, Engine::Ce)]).unwrap()[0].map(|rate| rate.gb());
    assert!(low < 1500.0 * 0.8 && high > 1500.0 && high < 1800.0, "{low} to {high}");
    let again = read_system(&write_system(&pod).unwrap(), "again").unwrap();
    assert_eq!(again.fabric.links()[0].kind, pod.fabric.links()[0].kind);
    // of so many links nobody knows the rate of one, unless it is said
    let refused = rate(&pair("nvlink = \"6 x18\""), Engine::Ce).unwrap_err();
    assert!(refused.contains("one NVLink 6 brick") && refused.contains("gen6 900 GB/s"), "{refused}");
    near(rate(&pair("nvlink = \"6 x18 1000 GB/s\""), Engine::Ce).unwrap(), 800.0);
}

#[test]
fn a_file_that_says_a_bundle_wrongly_is_refused_with_what_to_write() {
    for (link, said) in [
        ("ualink = \"400G x4\"", "200G"),
        ("nvlink = \"9 x4\"", "generations are 1, 2, 3, 4, 5, 6"),
        ("nvlink = 0", "at least one brick"),
        ("nvlink = 2\nualink = 2", "exactly one of"),
    ] {
        let text = format!(
            "name = \"p\"\n[nodes]\nGPU0 = {{ kind = \"gpu\" }}\nGPU1 = {{ kind = \"gpu\" }}\n[[links]]\nbetween = [\"GPU0\", \"GPU1\"]\n{link}\n"
        );
        let error = read_system(&text, "p").unwrap_err().to_string();
        assert!(error.contains(said), "{link}: {error}");
    }
}
