//! What becomes of a snapshot.

use super::super::testing::scanned;
use super::*;
use peerlane_machine::fabric::{PcieGeneration, PcieWidth};

fn link(number: u8, remote: Option<RemoteKind>, bus_id: &str) -> Nvlink {
    let remote_bus_id = Some(bus_id.to_owned()).filter(|b| !b.is_empty());
    Nvlink { link: number, active: Some(true), remote, remote_bus_id, ..Nvlink::default() }
}

fn gpu(index: u32, nvlinks: Vec<Nvlink>) -> Gpu {
    let address = format!("0000:0{}:00.0", index + 1).parse().ok();
    Gpu { index, address, nvlinks, ..Gpu::default() }
}

fn pair(from: u32, to: u32, ancestor: Ancestor, nvlink: &str) -> Pair {
    let p2p = P2p { read: Some("OK".to_owned()), nvlink: Some(nvlink.to_owned()), ..P2p::default() };
    Pair { from, to, ancestor: Some(ancestor), p2p }
}

fn snapshot(gpus: Vec<Gpu>, pairs: Vec<Pair>) -> Snapshot {
    Snapshot { schema: SCHEMA.to_owned(), gpus, pairs, ..Snapshot::default() }
}

fn found(snapshot: &Snapshot) -> Found {
    scanned(scan, &serde_json::to_string_pretty(snapshot).unwrap())
}

fn classes(found: &Found) -> Vec<&ClassMatrix> {
    found.evidence.iter().filter_map(|e| if let Fact::Classes(m) = &e.fact { Some(m) } else { None }).collect()
}

#[test]
fn ancestors_are_the_classes_of_topo_m() {
    let told = [Ancestor::Internal, Ancestor::Single, Ancestor::Multiple, Ancestor::HostBridge, Ancestor::Node];
    let pairs =
        told.into_iter().zip(1..).map(|(a, to)| pair(0, to, a, "NS")).chain([pair(6, 0, Ancestor::System, "NS")]);
    let found = found(&snapshot((0..8).map(|i| gpu(i, Vec::new())).collect(), pairs.collect()));
    let [matrix] = classes(&found)[..] else { panic!("{found:?}") };
    let first: Vec<String> = matrix.cells[0].iter().map(|c| c.map_or("?".to_owned(), |c| c.to_string())).collect();
    assert_eq!(first, ["X", "PIX", "PIX", "PXB", "PHB", "NODE", "SYS", "?"]);
    assert_eq!(matrix.between("GPU5", "GPU0"), Some(PathClass::Node), "told one way, it holds both ways");
}

#[test]
fn nvlinks_count_where_they_join_a_pair() {
    let hidden = "FFFFFFFF:FF:FF.0";
    let switched = |n: u8| (0..n).map(|i| link(i, Some(RemoteKind::Switch), hidden)).collect::<Vec<_>>();
    let joined = vec![link(0, Some(RemoteKind::Gpu), "00000000:02:00.0"), link(1, None, "00000000:02:00.0")];
    let nv = |a: Vec<Nvlink>, b: Vec<Nvlink>, status: &str| {
        let pairs = vec![pair(0, 1, Ancestor::System, status), pair(1, 0, Ancestor::System, status)];
        let found = found(&snapshot(vec![gpu(0, a), gpu(1, b)], pairs));
        let all: Vec<_> = classes(&found).iter().map(|m| m.between("GPU0", "GPU1").unwrap()).collect();
        all
    };
    let both = |n| vec![PathClass::nvlink(n), PathClass::Sys];
    assert_eq!(nv(joined, Vec::new(), "OK"), both(2));
    assert_eq!(nv(switched(18), switched(17), "OK"), both(17));
    assert_eq!(nv(switched(18), switched(18), "U"), both(18));
    assert_eq!(nv(switched(18), switched(18), "NS"), [PathClass::Sys], "they do not meet");
    assert_eq!(nv(switched(18), Vec::new(), "OK"), [PathClass::Sys]);
    // a virtual machine may hide even what kind the far end is
    let unknown = |n: u8| (0..n).map(|i| link(i, Some(RemoteKind::Unknown), hidden)).collect::<Vec<_>>();
    assert_eq!(nv(unknown(4), unknown(4), "OK"), both(4));
    let npu = |n: u8| (0..n).map(|i| link(i, Some(RemoteKind::Npu), "00000004:00:00.0")).collect::<Vec<_>>();
    assert_eq!(nv(npu(3), npu(3), "NS"), [PathClass::Sys]);
    let mut down = switched(18);
    down.iter_mut().for_each(|l| l.active = Some(false));
    assert_eq!(nv(down, switched(18), "OK"), [PathClass::Sys]);
}

#[test]
fn ports_have_their_rate_and_far_end() {
    let mut up = link(0, Some(RemoteKind::Gpu), "00000000:02:00.0");
    up.megabytes_per_second = Some(26_562);
    let mut down = link(1, None, "");
    down.active = Some(false);
    let found = found(&snapshot(vec![gpu(0, vec![up, down, link(2, Some(RemoteKind::Switch), "")])], Vec::new()));
    let ports = found.evidence.iter().find_map(|e| if let Fact::Nvlink(p) = &e.fact { Some(p) } else { None }).unwrap();
    assert!((ports[0].rate.unwrap().gb() - 26.562).abs() < 1e-9);
    assert_eq!(ports[0].remote, Some(NvlinkEnd::Device("02:00.0".parse().unwrap())));
    assert_eq!((ports[1].active, &ports[1].remote), (false, &None));
    assert_eq!((&ports[2].remote, ports[2].remote_class), (&Some(NvlinkEnd::Hidden), Some(0x06_8000)));
}

#[test]
fn facts_of_a_gpu_and_its_troubles() {
    let mut one = gpu(3, Vec::new());
    one.pcie.running = PcieWidth::new(PcieGeneration::Gen1, 16);
    one.now = Now { power_w: Some(70.5), clock_event_reasons: Some(vec!["Idle".to_owned()]), ..Now::default() };
    one.modes = Modes { mig: Some(true), compute: Some("Prohibited".to_owned()), ..Modes::default() };
    one.fabric = Some(FabricState { state: "Not Supported".to_owned(), ..FabricState::default() });
    let mut all = snapshot(vec![one.clone(), one, gpu(1, Vec::new())], Vec::new());
    all.driver = Some("580.1".to_owned());
    let error = "GPU is lost".to_owned();
    all.absent.push(Absent { field: "memory".to_owned(), error, gpus: vec![1] });
    let found = found(&all);
    let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!("{found:?}") };
    assert_eq!(gpus.iter().map(|g| g.index).collect::<Vec<_>>(), [Some(1), Some(3)]);
    assert_eq!(
        (gpus[1].power, gpus[1].mig, gpus[1].running.to_string()),
        (Some(70.5), Some(true), "1.0 x16".to_owned())
    );
    assert_eq!((gpus[1].fabric_state.as_ref(), gpus[1].driver.as_deref()), (None, Some("580.1")));
    let said: Vec<&str> = found.warnings.iter().map(|w| w.message.as_str()).collect();
    assert_eq!((gpus[0].unreachable.as_deref(), &gpus[1].unreachable), (Some("GPU is lost"), &None));
    assert!(said[0].contains("one number") && said[1].starts_with("GPU3: MIG is on"), "{said:?}");
    assert!(said[2].starts_with("GPU3: its compute mode"), "{said:?}");
}

#[test]
fn the_document_is_found_in_any_layout_and_among_text() {
    let one = snapshot(vec![gpu(0, Vec::new())], Vec::new());
    let line = serde_json::to_string(&one).unwrap();
    let pretty = serde_json::to_string_pretty(&one).unwrap();
    let text = format!("$ peerlane discover\n{pretty}\ndone\n{line}\nand {line}\n");
    let found = scanned(scan, &text);
    let gpus: Vec<_> = found.evidence.iter().filter(|e| matches!(e.fact, Fact::Gpus(_))).collect();
    let last = text.lines().count() as u32;
    assert_eq!(gpus[0].origin.lines, Some((2, last - 3)));
    assert_eq!(gpus[1].origin.lines, Some((last - 1, last - 1)));
    assert_eq!(gpus.len(), 3);
    assert_eq!(found.warnings, []);
}

#[test]
fn what_is_cut_or_of_another_version_is_said() {
    let pretty = serde_json::to_string_pretty(&snapshot(vec![gpu(0, Vec::new())], Vec::new())).unwrap();
    let cut = scanned(scan, pretty.get(..pretty.len() - 3).unwrap());
    assert_eq!((cut.evidence.len(), cut.warnings.len()), (0, 1));
    let newer = scanned(scan, &pretty.replace("nvml/1", "nvml/2"));
    assert_eq!((newer.evidence.len(), newer.warnings.len()), (0, 1));
    assert!(newer.warnings[0].message.contains("peerlane/nvml/2"));
    for other in
        ["the schema \"peerlane/nvml/1\" is", "{ \"x\": 1, \"schema\": 3 }", "\"schema\": \"peerlane/nvml/1\"", "\n\n"]
    {
        assert_eq!(scanned(scan, other).evidence, [], "{other}");
    }
    assert_eq!(scanned(scan, "{\"schema\": \"peerlane/nvml/1\"}").evidence, [], "no GPU, no statement");
}
