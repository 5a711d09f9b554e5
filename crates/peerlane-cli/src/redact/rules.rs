//! The table of patterns: where something that identifies a machine stands, and what it is.

use std::sync::LazyLock;

use regex::{Regex, RegexSet, RegexSetBuilder};

use super::pseudonyms::Kind::{self, Digits, Host, Ipv4, Ipv6, Number, Other, Process, User};
use super::pseudonyms::Pseudonyms;
use super::words::adjoins;
use super::{allowed, node_list};

/// What is done with the text of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// It is replaced where it stands.
    Replace(Kind),
    /// It is replaced where it stands, and as a word wherever else.
    Learn(Kind),
    /// It is the name of a network interface or RDMA device, replaced unless the name may stay.
    Device,
    /// It is a path, replaced unless it may stay.
    Path,
    /// It is a list of hosts, as Slurm writes them.
    Nodes,
    /// It is a GUID, unless it is the ids of a PCI device, as the X server writes them.
    Guid,
    /// It is an image of a container, replaced unless everybody can pull it.
    Image,
}

use Act::{Learn, Replace};

/// Patterns with what their groups are, in the order in which they run. A match counts only where no letter, digit or
/// underscore adjoins it, if the pattern begins or ends with one.
const RULES: &[(&str, &[Act])] = &[
    // a device and the one that it belongs to, before both are taken for an address of mail
    (r"^\d+: ([^\s:@]+)(?:@([^\s:]+))?: <", &[Act::Device, Act::Device]),
    // keys and tokens, by their known beginnings and by what they are called
    (
        r"\b((?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|[sr]k_live_|xox[abprs]-|AKIA|ASIA|AIza|ya29\.|nvapi-|npm_|pypi-|dckr_pat_|SG\.|eyJ)[A-Za-z0-9_.-]{8,})",
        &[Replace(Other)],
    ),
    (
        r#"(?i)(?:bearer|token|passw(?:or)?d|passphrase|secret|(?:api|access|account|private|shared|secret)[_-]?key|credentials?|cookie)["']?(?:\s*[=:]\s*|\s+)["']?(?:(?:bearer|basic|token) )?([^\s"',;|]{4,})"#,
        &[Replace(Other)],
    ),
    (r"(?i)\bauthorization:\s*(?:[a-z]+ )?(\S+)", &[Replace(Other)]),
    (r"\b(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S+) (AAAA[A-Za-z0-9+/=]+)", &[Replace(Other)]),
    (r"\bSHA256:([A-Za-z0-9+/]{43})", &[Replace(Other)]),
    // cloud resources
    (r"\b((?:i|ami|vol|eni|subnet|vpc|sg|snap|rtb|acl|fs|lt)-[0-9a-f]{8,17})\b", &[Replace(Other)]),
    (r"\bprojects/([a-z0-9][\w./-]*)", &[Replace(Other)]),
    (
        r"(?i)\b(?:instance|bucket|cluster|resource ?group)[_-]?name[\x22']?\s*[=:]\s*[\x22']?([\w.-]{3,})",
        &[Learn(Other)],
    ),
    (r"\b((?:ocid1|arn:aws)[.:][^\s,;]+)", &[Replace(Other)]),
    (
        r"(?i)\b(?:instance|vm|container|pod|account|subscription|project)[_-]?id[\x22']?\s*[=:]\s*[\x22']?([^\s\x22',;]{4,})",
        &[Replace(Other)],
    ),
    (r"\b(?:docker|crio|cri-containerd|containerd|libpod)[-/:]+([0-9a-f]{12,64})\b", &[Replace(Digits)]),
    // job schedulers
    (
        r"\b(?:NodeList|ReqNodeList|ExcNodeList|BatchHost|NodeName|NodeHostName|NodeAddr|Nodes)=([A-Za-z][\w.,\[\]-]*)",
        &[Act::Nodes],
    ),
    (r"\bAllocNode:Sid=([\w.-]+):(\d+)", &[Learn(Host), Replace(Number)]),
    (r"\b(?:UserId|GroupId|Owner)=([A-Za-z_][\w.-]*)(?:\((\d+)\))?", &[Learn(User), Replace(Number)]),
    (r"\[([A-Za-z_][\w.-]*)@(?:\d{4}-|Unknown)", &[Learn(User)]),
    (r"\b(?:JobName|Account|Reservation|Partition)=(\S+)", &[Learn(Other)]),
    (
        r"\b(?:JobId|WorkDir|StdOut|StdErr|StdIn|Command|QOS|Comment|MailUser|Licenses|Features|ActiveFeatures|AvailableFeatures)=(\S+)",
        &[Replace(Other)],
    ),
    (
        r"\b(?:srun|salloc|sbatch|slurmstepd|slurmd|mpirun|prterun)(?:-|: error: |: )([A-Za-z][\w-]*[\d\[][\w.,\[\]-]*): ",
        &[Act::Nodes],
    ),
    (r"\b(?:Nodes|[Nn]ode failure on|(?:JOB|STEP) \S+ ON) ([A-Za-z][\w-]*[\d\]\[][\w.,\[\]-]*)", &[Act::Nodes]),
    (r"\b(?:uid|gid|euid|egid)=(\d+)\(([A-Za-z_][\w.-]*)\)", &[Replace(Number), Learn(User)]),
    (r"(?:groups=|\),)(\d+)\(([A-Za-z_][\w.-]*)\)", &[Replace(Number), Learn(User)]),
    // containers and what runs them
    (r"^\s*Node:\s+([A-Za-z0-9][\w.-]*)", &[Learn(Host)]),
    (r"\bassigned ([\w.-]+)/([\w.-]+) to ([\w.-]+)", &[Learn(Other), Learn(Other), Learn(Host)]),
    (r"^\s*(?:Namespace|Service Account|Controlled By|ClaimName|SecretName|ConfigMapName):\s+(\S+)", &[Learn(Other)]),
    (
        r"\b(?:[Nn]amespace|[Pp]od|[Dd]eployment|[Dd]aemon[Ss]et|[Ss]tateful[Ss]et|[Rr]eplica[Ss]et|[Pp]ytorch[Jj]ob|job)s?/([a-z0-9][a-z0-9.-]*)",
        &[Learn(Other)],
    ),
    (r#"(?i)\b(?:pod|namespace|container)(?:[_-]?name)?["']?[=:]\s*["']?([a-z0-9][a-z0-9.-]{3,})"#, &[Learn(Other)]),
    (
        r#"(?i)\b(?:image|image id|pulling image|pulled image|container image):?=?\s+"?([a-z0-9][\w.-]*(?:[/:@][\w./:@-]+))"#,
        &[Act::Image],
    ),
    (r"(?i)\b(?:container|sandbox)[ :=/]+[\x22']?([0-9a-f]{12})\b", &[Replace(Digits)]),
    // addresses of people and machines
    (r"(?i)\bhttps?://([^\s\x22'<>|)]+)", &[Replace(Other)]),
    (
        r"(?i)\b(?:tcp|udp|ssh|sftp|ftp|s3a?|gs|az|abfss?|wasbs?|hdfs|nfs|smb|rsync|redis|rediss|amqp|mongodb|mysql|postgres(?:ql)?|grpcs?|k8s|docker|docker-pullable|kubernetes|etcd|ldaps?|oci|r2|wss?|unix|aws|gce|azure)://([^\s\x22'<>|)]+)",
        &[Replace(Other)],
    ),
    (r"\b([A-Za-z_][\w.+-]*)@\d{1,3}\.", &[Learn(User)]),
    (r"\b([A-Za-z0-9._%+-]+)@([A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*)", &[Learn(User), Learn(Host)]),
    (r"(?i)\b([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\b", &[Replace(Digits)]),
    (r"(?i)\bGID:?\s+(?:\[\d+\]\s*)?:?\s*([0-9a-f]{1,4}(?::[0-9a-f]{0,4}){3,})", &[Replace(Digits)]),
    (r"(?i)\b([0-9a-f]{2}(?:[-:][0-9a-f]{2}){5,})\b", &[Replace(Digits)]),
    (r"(?i)\b([0-9a-f]{4}(?::[0-9a-f]{4}){3,})\b", &[Act::Guid]),
    (r"(?i)\b([0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4})\b", &[Replace(Digits)]),
    (r"(?i)\bmac(?: address)?[\x22']?\s*[:=]?\s+([0-9a-f]{12})\b", &[Replace(Digits)]),
    (r"\b(?:GPU|MIG)-([0-9a-f]{8})\b", &[Replace(Digits)]),
    (r"(?i)\b[HSR]-([0-9a-f]{16})\b", &[Replace(Digits)]),
    (r"(?i)\bguid[\x22']?[\s:=(]+([0-9a-f]{16})\b", &[Replace(Digits)]),
    (r"\]\(([0-9a-f]{16})\)", &[Replace(Digits)]),
    (r"\b((?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4})\b", &[Replace(Ipv6)]),
    (r"([0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{1,4}){0,6}::[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,6})", &[Replace(Ipv6)]),
    (r"((?:\d{1,3}\.){3}\d{1,3})", &[Replace(Ipv4)]),
    // numbers of hardware, and addresses in memory
    (r"(?i)\b(?:roce|en|wl|ww|ib|sl)x([0-9a-f]{12,16})", &[Replace(Digits)]),
    (r"\b(0x[0-9a-fA-F]{16})\b", &[Replace(Digits)]),
    (r"\b(0x(?:7f|55|56)[0-9a-f]{10})\b", &[Replace(Digits)]),
    (r"\b(ffff[0-9a-f]{12})\b", &[Replace(Digits)]),
    (r"(?i)\b([0-9a-f]{24,})\b", &[Replace(Digits)]),
    (r#"(?i)\b(?:s/n|serial(?: ?(?:number|no\.?|num|#))?)["']?\s*[:=]\s*["']?([A-Z0-9][\w-]{3,})"#, &[Learn(Other)]),
    // hosts, where tools name theirs
    (r"(?:^|[\s>])([A-Za-z0-9][\w.-]*):(\d+):(\d+) \[\w+\] NCCL", &[Learn(Host), Replace(Number), Replace(Number)]),
    // where the log goes on in the row of a table, behind its last number
    (r"\s-?\d([A-Za-z][\w.-]*):(\d+):(\d+) \[\w+\] NCCL", &[Learn(Host), Replace(Number), Replace(Number)]),
    (r"\bPid\s+(\d+) on\s+(\S+) device", &[Replace(Number), Learn(Host)]),
    (r"^Linux (\S+) \d+\.\d+", &[Learn(Host)]),
    (
        r#"(?i)^[\s#"*/|>-]*(?:static |transient |pretty )?(?:host ?name|host|node ?name|nodelist|fqdn|domain ?name|server name)["']?\s*[:=]\s+["']?([A-Za-z0-9][\w.-]+)"#,
        &[Learn(Host)],
    ),
    (
        r#"(?i)^[\s#"*/|>-]*(?:local|remote|peer|target|source|head) (?:host|node)(?:name)?\s*[:=]\s+["']?([A-Za-z0-9][\w.-]+)"#,
        &[Learn(Host)],
    ),
    (r"^\[([A-Za-z][\w.-]*):(\d+)(?::\d+:\d+)?\] ", &[Learn(Host), Replace(Number)]),
    (
        r"(?i)\b(?:on (?:node|host)|from (?:node|host)|to host|host named) [\x22'\[]?([A-Za-z][\w-]*\d[\w.-]*)",
        &[Learn(Host)],
    ),
    (
        r#"(?i)\b(?:master[_-]?addr|rdzv[_-]?endpoint|rdzv[_-]?host|head[_-]?node|node[_-]?name|hostfile)["']?[=:\s]\s*["']?([A-Za-z][\w.-]+)"#,
        &[Learn(Host)],
    ),
    (r"\[([A-Za-z][\w.-]*)\]:\d{2,5}\b", &[Learn(Host)]),
    (r"\b(ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3})\b", &[Learn(Host)]),
    // nodes of an InfiniBand fabric, by what they are called
    (r#"["']([A-Za-z][\w.-]*)(?: (?:HCA-?\d+|mlx[45]_\w+|hfi1_\d+|ib\w+))["']"#, &[Learn(Host)]),
    (r"\( +'([A-Za-z][\w.-]*)(?: [^']*)?' - '([A-Za-z][\w.-]*)(?: [^']*)?' ?\)", &[Learn(Host), Learn(Host)]),
    (r#"[\x22'](?:MF0|SwitchX|Quantum)[; -]+([A-Za-z][\w.-]*)"#, &[Learn(Host)]),
    (r#"^(?:Switch|Ca|Rt|CA|SW)\b.* # "([A-Za-z][\w.-]*)"#, &[Learn(Host)]),
    (r#" # lid \d+ lmc \d+ "([A-Za-z][\w.-]*)"#, &[Learn(Host)]),
    (r"^CA: ([A-Za-z][\w.-]*) ", &[Learn(Host)]),
    (r"^Switch: 0x[0-9a-f]+ ([A-Za-z][\w.-]*)", &[Learn(Host)]),
    (r#"name="HostName" value="([^"]+)""#, &[Learn(Host)]),
    (r#"\bhost(?:name)?=["']?([A-Za-z0-9][\w.-]+)"#, &[Learn(Host)]),
    (r"^(?:[A-Z][a-z]{2}\s+\d+ \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) ([\w.-]+) [\w./-]+(?:\[\d+\])?:", &[Learn(Host)]),
    (
        r"(?i)\b((?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:com|org|net|edu|gov|mil|io|ai|dev|cloud|local|internal|lan|intranet|corp|cluster|example|test|invalid|localdomain|de|uk|fr|eu|ch|it|es|nl|se|jp|cn|kr|in|au|ca|us))\b",
        &[Learn(Host)],
    ),
    // users
    (
        r#"(?i)^[\s#"*/|>-]*(?:user ?name|user|login|owner|logname)["']?\s*[:=]\s+["']?([A-Za-z_][\w.-]*)"#,
        &[Learn(User)],
    ),
    (r"(?i)(?:/home|/Users|/u|[A-Z]:\\+Users)[/\\]+([A-Za-z_][\w.-]*)", &[Learn(User)]),
    // processes
    (r"^(?:[A-Z][a-z]{2}\s+\d+ [\d:]{8}|\d{4}-\d\d-\d\dT\S+) \S+ [\w./@-]+\[(\d+)\]: ", &[Replace(Number)]),
    (r"(?i)\bpid[ :=]+\d+ \(([^)]+)\)", &[Replace(Process)]),
    (r"(?i)\b(?:pid|ppid|tid|tgid|process id)['\x22]?\s*[:= ]\s*'?(\d+)", &[Replace(Number)]),
    (r"\b(?:pid=\S+ name=|pid=\S+, name=|[Cc]omm(?:and)?[:=] ?|comm )'?([\w./+-]+)", &[Replace(Process)]),
    (r"^\s*Name\s+: (/?\S+)\s*$", &[Replace(Process)]),
    (r"^\s*\d+\s+(\d+)\s+(?:C|G|C\+G|M\+C)\s+(?:[\d-]+\s+){3,8}(\S+)\s*$", &[Replace(Number), Replace(Process)]),
    (r"\bTask:?\s?([\w./+-]+):(\d+)", &[Replace(Process), Replace(Number)]),
    // network devices, where tools name them
    (r"^\s+altname (\S+)", &[Act::Device]),
    (r"\blogical name: ([^\s/]+)", &[Act::Device]),
    (r"\bmaster (\S+)", &[Act::Device]),
    (r"\b(veth[0-9a-f]{6,8}|br-[0-9a-f]{12}|cali[0-9a-f]{11}|lxc[0-9a-f]{12})\b", &[Act::Device]),
    (r"^\s*NIC\d+: (\S+)", &[Act::Device]),
    (r"\bCA '([^']+)'", &[Act::Device]),
    (r"\bInfiniband device '([^']+)'", &[Act::Device]),
    (r"\bhca_id:\s+(\S+)", &[Act::Device]),
    (r#"<(?:net|nic)\b[^>]*? name="([^"]+)""#, &[Act::Device]),
    (r#"\bname="([^"]+)"[^>]* osdev_type="(?:2|3|Network|OpenFabrics)""#, &[Act::Device]),
    (r#"\bosdev_type="(?:2|3|Network|OpenFabrics)"[^>]* name="([^"]+)""#, &[Act::Device]),
    (r#"\b(?:Net|OpenFabrics)(?:\(\w+\))? (?:L#\d+ )?"([^"]+)""#, &[Act::Device]),
    (r"\bIFNAME(?: set (?:by environment )?to |=)[\^=]?([\w.-]+)", &[Act::Device]),
    (r"\bNCCL_(?:IB_HCA|SOCKET_IFNAME)(?: set (?:by environment )?to |=)[\^=]?([\w.-]+)", &[Act::Device]),
    (r"\b(?:Using|OOB) ([A-Za-z][\w.-]*):", &[Act::Device]),
    (r"\[\d+\]([A-Za-z][\w.-]*):\d+/(?:IB|RoCE)", &[Act::Device]),
    (r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ([a-z][\w.-]*): ", &[Act::Device]),
    (r"\brenamed from (\S+)", &[Act::Device]),
    (r"(?:^|/)(?:net|infiniband|infiniband_verbs)/([^/\s]+)", &[Act::Device]),
    (r"\bDevice\s+: (\S+)", &[Act::Device]),
    // numbers of an InfiniBand fabric
    (r"(?i)\b(?:base |sm |port_|sm_)?lid:?\s+(0x[0-9a-f]+|\d+)", &[Replace(Number)]),
    (r"\b(?:QPN|PSN|RKey|VAddr) (0x[0-9a-fA-F]+)", &[Replace(Digits)]),
    // paths of people and sites
    (r#"(?:^|[\s"'=(,;])([A-Za-z]:\\[^\s"'<>|:;,]*)"#, &[Act::Path]),
    (r#"(?:^|[\s"'=(,;])\\\\([\w.-]+\\[^\s"'<>|:;,]*)"#, &[Replace(Other)]),
    (r#"(?:^|[\s"'=:(,\[>|@;])(~?/[A-Za-z0-9._+@%~][A-Za-z0-9._+@%~/:-]*|~[A-Za-z0-9._-]*/[^\s"']*)"#, &[Act::Path]),
];

struct Rule {
    pattern: Regex,
    acts: &'static [Act],
}

/// All patterns, and which of them a line has at all.
struct Compiled {
    rules: Vec<Rule>,
    any: RegexSet,
}

/// The most bytes of memory for the automaton of all patterns at once.
const AUTOMATON: usize = 32 << 20;

/// All or none: text of which a part would not be redacted is not let through.
static COMPILED: LazyLock<Option<Compiled>> = LazyLock::new(|| {
    // a boundary between ASCII letters and others is one too; so automata need not look back, and more is found, not less
    let texts: Vec<String> = RULES.iter().map(|(pattern, _)| pattern.replace(r"\b", r"(?-u:\b)")).collect();
    let compile =
        |(text, (_, acts)): (&String, &(&str, &'static [Act]))| Some(Rule { pattern: Regex::new(text).ok()?, acts });
    let rules = texts.iter().zip(RULES).map(compile).collect::<Option<_>>()?;
    let any = RegexSetBuilder::new(&texts).size_limit(AUTOMATON).dfa_size_limit(AUTOMATON).build().ok()?;
    Some(Compiled { rules, any })
});

/// A line with everything replaced that a rule finds.
pub(super) fn apply(line: &str, names: &mut Pseudonyms) -> String {
    let Some(compiled) = COMPILED.as_ref() else { return String::new() };
    let mut found = compiled.any.matches(line);
    let mut line = line.to_owned();
    for (i, rule) in compiled.rules.iter().enumerate() {
        if found.matched(i)
            && let Some(done) = one(rule, &line, names)
        {
            line = done;
            // what was replaced may have made room for another rule
            found = compiled.any.matches(&line);
        }
    }
    line
}

fn one(rule: &Rule, line: &str, names: &mut Pseudonyms) -> Option<String> {
    let mut done = String::new();
    let mut from = 0;
    for captures in rule.pattern.captures_iter(line) {
        for (group, act) in captures.iter().skip(1).zip(rule.acts) {
            let Some(group) = group else { continue };
            let Some(new) = stand_in(*act, group.as_str(), line, group.range(), names) else { continue };
            done.push_str(&line[from..group.start()]);
            done.push_str(&new);
            from = group.end();
        }
    }
    (from > 0).then(|| done + &line[from..])
}

fn stand_in(act: Act, text: &str, line: &str, at: std::ops::Range<usize>, names: &mut Pseudonyms) -> Option<String> {
    let (before, after) = (line[..at.start].chars().next_back(), line[at.end..].chars().next());
    match act {
        Replace(Ipv4) => ipv4(text, before, after).then(|| names.of(Ipv4, text)),
        Replace(Ipv6) => (!adjoins(before) && !adjoins(after) && before != Some(':')).then(|| names.of(Ipv6, text)),
        Replace(Other) if public(text) => None,
        Learn(Other) if NOTHING.contains(&text.to_lowercase().as_str()) => None,
        Act::Guid => (!(text.len() == 19 && line[..at.start].contains("PCI:"))).then(|| names.of(Digits, text)),
        Act::Nodes => node_list::redacted(text, |name| host(name, names)),
        Act::Image => (!is_public_image(text)).then(|| names.of(Other, text)),
        Replace(kind) => Some(names.of(kind, text)),
        // the short name of a host is its name too
        Learn(Host) if allowed::is_device(text) || text == "NONE" => None,
        Learn(Host) => host(text, names),
        // `veth1@if2`
        Learn(User) if text == "root" || linked(&line[at.end..]) => None,
        Learn(kind) => Some(names.word(kind, text)),
        Act::Device => {
            let stays = allowed::is_device(text) || text == "NONE" || text.len() < 2;
            (!stays).then(|| names.word(Kind::Net, text))
        }
        Act::Path => {
            let path = text.trim_end_matches([':', '.']);
            (path.len() > 2 && !allowed::is_path(path)).then(|| names.of(Kind::Path, path) + &text[path.len()..])
        }
    }
}

/// `@if2`, `@NONE` or `@eth0`: a device that belongs to another, and no user.
fn linked(after: &str) -> bool {
    let other = after.strip_prefix('@').and_then(|rest| rest.split([':', ' ']).next());
    other.is_some_and(|other| allowed::is_device(other) || other == "NONE")
}

/// Four numbers that are no version of more parts, and no address that everybody has.
fn ipv4(text: &str, before: Option<char>, after: Option<char>) -> bool {
    let part = |part: &str| part.parse::<u8>().is_ok() && (part == "0" || !part.starts_with('0'));
    let apart = |c: Option<char>| !adjoins(c) && c != Some('.') && c != Some('-');
    apart(before)
        && !adjoins(after)
        && text.split('.').all(part)
        && !["0.", "127.", "255."].iter().any(|p| text.starts_with(p))
}

/// A page that everybody can read, which says nothing about a machine.
fn public(address: &str) -> bool {
    const SITES: [&str; 13] = [
        "nvidia.com",
        "kernel.org",
        "github.com",
        "amd.com",
        "intel.com",
        "readthedocs.io",
        "open-mpi.org",
        "arxiv.org",
        "linux.dev",
        "supermicro.com",
        "amazon.com",
        "microsoft.com",
        "mellanox.com",
    ];
    let host = address.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    SITES.iter().any(|site| host == *site || host.strip_suffix(*site).is_some_and(|rest| rest.ends_with('.')))
}

/// Values that are none.
const NOTHING: [&str; 8] = ["none", "null", "n/a", "unknown", "default", "not", "number", "(null)"];

/// Whether everybody can pull an image.
pub(super) fn is_public_image(name: &str) -> bool {
    const REGISTRIES: [&str; 6] =
        ["nvcr.io/nvidia/", "docker.io/library/", "registry.k8s.io/", "nvidia/", "rocm/", "pytorch/"];
    let words = ["ubuntu", "debian", "busybox", "alpine", "python", "pause"];
    REGISTRIES.iter().any(|registry| name.starts_with(registry))
        || words.contains(&name.split(':').next().unwrap_or(name))
}

/// Learns the name of a host in full and in short.
pub(super) fn host(name: &str, names: &mut Pseudonyms) -> Option<String> {
    let name = name.trim_end_matches(['.', ':', '-']);
    let number = name.bytes().all(|b| b.is_ascii_digit());
    // libraries have dots too, and public sites are nobody's
    if number || name.len() < 2 || name == "localhost" || name.contains(".so") || public(name) {
        return None;
    }
    let short = name.split('.').next().unwrap_or(name);
    let new = names.word(Kind::Host, short);
    if short != name {
        names.alias(name, &new);
    }
    Some(new)
}

/// All patterns compile, and have a group for each act.
#[cfg(test)]
pub(super) fn sound() {
    assert!(COMPILED.is_some());
    for (pattern, acts) in RULES {
        let compiled = Regex::new(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
        assert_eq!(compiled.captures_len() - 1, acts.len(), "{pattern}");
    }
}
