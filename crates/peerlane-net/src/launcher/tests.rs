use super::*;

fn of(variables: &[(&str, &str)], given: &Given) -> Result<Place, Error> {
    let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
    Place::of(&get, given)
}

fn heads(place: &Place) -> String {
    let hosts =
        place.heads.iter().map(|head| format!("{}{}", head.host, head.port.map_or(String::new(), |p| format!(":{p}"))));
    hosts.collect::<Vec<_>>().join(" ")
}

const NONE: Given = Given { rank: None, size: None, head: None };

const SLURM: [(&str, &str); 7] = [
    ("SLURM_PROCID", "2"),
    ("SLURM_NTASKS", "16"),
    ("SLURM_STEP_NUM_TASKS", "4"),
    ("SLURM_LOCALID", "0"),
    ("SLURM_JOB_ID", "71"),
    ("SLURM_JOB_NODELIST", "node[01-16]"),
    ("SLURM_STEP_NODELIST", "node[05-08]"),
];

#[test]
fn slurms_step_counts_not_its_job() {
    let place = of(&SLURM, &NONE).unwrap();
    assert_eq!((place.launcher, place.rank, place.size, place.local_rank), (Launcher::Slurm, 2, 4, 0));
    assert_eq!(heads(&place), "node05");
    assert_eq!(place.nodes.join(" "), "node05 node06 node07 node08");
}

#[test]
fn mpirun_in_a_job_of_slurms_has_its_own_ranks() {
    let mut variables = SLURM.to_vec();
    variables.extend([
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_SIZE", "8"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ("OMPI_MCA_orte_hnp_uri", "11.0;tcp://192.0.2.2,10.0.0.7:36081;tcp6://[fd00::2]:50615"),
    ]);
    let place = of(&variables, &NONE).unwrap();
    assert_eq!((place.launcher, place.rank, place.size, place.local_rank), (Launcher::OpenMpi, 3, 8, 1));
    assert_eq!(heads(&place), "node05 192.0.2.2 10.0.0.7");
    variables.retain(|(name, _)| *name != "OMPI_COMM_WORLD_LOCAL_SIZE");
    variables.push(("OMPI_COMM_WORLD_LOCAL_SIZE", "8"));
    assert_eq!(heads(&of(&variables, &NONE).unwrap()), "localhost", "all ranks are on this host");
}

#[test]
fn torchrun_mpich_and_plain_variables() {
    let torch = [
        ("RANK", "1"),
        ("WORLD_SIZE", "2"),
        ("LOCAL_RANK", "0"),
        ("MASTER_ADDR", "node01"),
        ("MASTER_PORT", "29500"),
        ("TORCHELASTIC_RUN_ID", "none"),
    ];
    let place = of(&torch, &NONE).unwrap();
    assert_eq!((place.launcher, place.rank, place.size), (Launcher::Torchrun, 1, 2));
    assert_eq!(heads(&place), "node01", "torchrun itself listens on MASTER_PORT");
    assert_eq!(of(&torch[..5], &NONE).unwrap().launcher, Launcher::Environment);
    let place = of(&[("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "1")], &NONE).unwrap();
    assert_eq!((place.launcher, place.local_rank, heads(&place)), (Launcher::Pmi, 1, String::new()));
}

#[test]
fn options_come_first() {
    let head = HostPort::parse("10.0.0.1:2000").unwrap();
    let given = Given { rank: Some(1), size: Some(3), head: Some(head.clone()) };
    let place = of(&SLURM, &given).unwrap();
    assert_eq!(
        (place.launcher, place.rank, place.size, heads(&place).as_str()),
        (Launcher::Options, 1, 3, "10.0.0.1:2000")
    );
    let place = of(&SLURM, &Given { head: Some(head), ..NONE }).unwrap();
    assert_eq!((place.rank, heads(&place).as_str()), (2, "10.0.0.1:2000"));
}

#[test]
fn what_is_wrong_is_named() {
    assert_eq!(of(&[], &NONE), Err(Error::None));
    assert_eq!(of(&[], &Given { rank: Some(1), ..NONE }), Err(Error::Half));
    let error = |variables: &[(&str, &str)]| of(variables, &NONE).unwrap_err().to_string();
    assert!(error(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")]).starts_with("Slurm started 1 process"));
    assert_eq!(error(&[("PMI_RANK", "x"), ("PMI_SIZE", "2")]), "PMI_RANK is 'x': not a number");
    assert_eq!(error(&[("PMI_RANK", "0")]), "PMI_SIZE is '': not set");
    assert_eq!(error(&[("PMI_RANK", "2"), ("PMI_SIZE", "2")]), "PMI_RANK is '2': of 2 processes the last has rank 1");
    assert!(error(&[("PMI_RANK", "0"), ("PMI_SIZE", "99999999999")]).contains("the most are"));
    assert!(error(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_JOB_NODELIST", "a[")]).contains("closing"));
}

#[test]
fn hosts_with_and_without_ports() {
    for (text, host, port) in [
        ("node01", "node01", None),
        ("node01:80", "node01", Some(80)),
        ("fe80::1", "fe80::1", None),
        ("[fe80::1]:80", "fe80::1", Some(80)),
    ] {
        assert_eq!(HostPort::parse(text), Ok(HostPort { host: host.to_owned(), port }));
    }
    for text in ["", ":80", "a:0", "a:70000", "a:b", "[a", "[a]b", "a b", "a\n"] {
        assert!(HostPort::parse(text).is_err(), "{text}");
    }
}

#[test]
fn all_processes_of_a_job_know_its_ports() {
    let port = |job: &str| Place::new(Launcher::Slurm, job, Vec::new()).ports();
    assert_eq!(port("71.0"), port("71.0"));
    assert_ne!(port("71.0"), port("71.1"));
    assert!((0..1000).flat_map(|job| port(&job.to_string())).all(|port| PORTS.contains(&port)));
}
