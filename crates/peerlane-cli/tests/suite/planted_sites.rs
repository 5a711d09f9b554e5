//! What schedulers, containers, clouds, fabrics and other systems print around the captures of one machine, with what
//! identifies it there.

/// What identifies, by kind.
pub(crate) const SECRETS: &[(&str, &str)] = &[
    ("private key", "MIIEpAIBAAKCAQEAx9ACMEplantedKEY7"),
    ("second line of a private key", "zQ0plantedSECONDline88"),
    ("public key of ssh", "AAAAC3NzaC1lZDI1NTE5AAAAIPlanted44"),
    ("fingerprint", "nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8"),
    ("bearer token", "opaque-bearer-55aa77"),
    ("basic authorisation", "YWxpY2U6cGxhbnRlZA"),
    ("access key of AWS", "AKIAPLANTED7EXAMPLE9"),
    ("secret key of AWS", "wJalrXUtnFEMIplantedbPxRfiCY"),
    ("key of wandb", "5f4e3d2c1b0a99887766554433221100aabbccdd"),
    ("key of an API in JSON", "zz-planted-api-key-1"),
    ("cookie", "session-planted-8812"),
    ("password in an address", "pgpw-planted"),
    ("user by Slurm", "aliceq"),
    ("number of a user", "41001"),
    ("account", "bank-acct-fusion7"),
    ("partition", "part-zeta-9"),
    ("job's name", "llm-codename-osprey"),
    ("reservation", "resv-osprey-2"),
    ("node by Slurm", "zgpu07"),
    ("nodes in brackets", "zgpu["),
    ("first node in brackets", "zgpu01"),
    ("node with login", "zlogin3"),
    ("batch host", "zbatch5"),
    ("node that failed", "zfail12"),
    ("user who drained", "opsbob"),
    ("group", "fusiongrp"),
    ("pod", "osprey-worker-0-x7k2p"),
    ("namespace", "team-osprey"),
    ("service account", "osprey-sa"),
    ("node of Kubernetes", "knode-19"),
    ("label", "osprey-label-value"),
    ("annotation", "osprey-annotation-value"),
    ("image", "registry.osprey.example/llm"),
    ("secret's name", "osprey-hf-secret"),
    ("claim", "osprey-claim-data"),
    ("value of a pod's environment", "osprey-env-value"),
    ("id of a container, short", "4d5e6f708192"),
    ("container's name", "osprey_trainer_1"),
    ("command in a container", "osprey_main.py"),
    ("bucket of S3", "osprey-bucket-s3"),
    ("bucket of GCS", "osprey-bucket-gs"),
    ("name of a resource of AWS", "osprey-role-arn"),
    ("account of AWS", "998877665544"),
    ("project of Google", "osprey-project-42"),
    ("host of EC2", "ip-10-77-12-200"),
    ("group of Azure", "osprey-rg-azure"),
    ("storage of Azure", "ospreyblobstore"),
    ("serial number, short form", "SNP77112233X"),
    ("serial number after `serial:`", "SER99887711Q"),
    ("serial number in a list", "1650999111777"),
    ("serial number of a module", "MODSN4455667"),
    ("service tag", "TAGQ7J2K"),
    ("node description", "zibhost21"),
    ("name of a switch", "zleaf-05"),
    ("name of a spine", "zspine-02"),
    ("GUID in the name of a node", "1c34da0300aa7b51"),
    ("service in a cluster", "osprey-head-svc"),
    ("host of a rendezvous", "zrdzv-host4"),
    ("host of a broker", "zbroker9"),
    ("user at an address", "carolx"),
    ("user of Windows", "dave.osprey"),
    ("folder of Windows", "OspreyData"),
    ("share", "zshare-srv"),
    ("home folder elsewhere", "erinz"),
    ("MAC address with dots", "1c34.daaa.7b99"),
    ("MAC address without marks", "1c34daaa7b77"),
    ("UUID of a GPU, short", "GPU-5c6d7e8f"),
    ("host of MPI", "zmpi31"),
    ("user of a process", "frankp"),
    ("logical name", "lan-osprey"),
    ("host that a message names", "zmsg44"),
];

const KEYS: &str = "\
-----BEGIN RSA PRIVATE KEY-----
MIIEpAIBAAKCAQEAx9ACMEplantedKEY7
zQ0plantedSECONDline88
-----END RSA PRIVATE KEY-----
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPlanted44 x
ED25519 key fingerprint is SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8.
Authorization: Bearer opaque-bearer-55aa77
curl -H 'Authorization: Basic YWxpY2U6cGxhbnRlZA' --cookie session-planted-8812
aws_access_key_id = AKIAPLANTED7EXAMPLE9
aws_secret_access_key = wJalrXUtnFEMIplantedbPxRfiCY
export WANDB_API_KEY=5f4e3d2c1b0a99887766554433221100aabbccdd
\"api_key\": \"zz-planted-api-key-1\",
DATABASE=postgres://svc:pgpw-planted@10.9.8.7/runs
";

const SLURM: &str = "\
srun: error: zfail12: task 3: Exited with exit code 1
srun: error: Node failure on zfail12
slurmstepd: error: *** JOB 41 ON zfail12 CANCELLED AT 2026-11-01T10:00:00 DUE TO NODE FAILURE ***
salloc: Nodes zgpu[01-04,7] are ready for job
JobId=41 JobName=llm-codename-osprey
   UserId=aliceq(41001) GroupId=fusiongrp(500) MCS_label=N/A
   Account=bank-acct-fusion7 QOS=normal Reservation=resv-osprey-2
   Partition=part-zeta-9 AllocNode:Sid=zlogin3:4711
   NodeList=zgpu[01-04,07] BatchHost=zbatch5
NodeName=zgpu07 Arch=x86_64 CoresPerSocket=32
   NodeAddr=zgpu07 NodeHostName=zgpu07 Version=23.02
   State=DOWN ThreadsPerCore=1 Partitions=gpu
   Reason=GPU lost [opsbob@2026-11-01T09:00:00]

  JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
     41 part-zeta-9 llm-codename-osprey   aliceq  R       1:00      5 zgpu[01-04,7]

PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
part-zeta-9*  up 2-00:00:00      2  down* zgpu[03-04]
part-zeta-9*  up 2-00:00:00      1  drain zgpu07

JobID        JobName      Account    State
------------ ------------ ---------- ----------
41           llm-codenam+ bank-acct-  NODE_FAIL

uid=41001(aliceq) gid=500(fusiongrp) groups=500(fusiongrp),41002(opsbob)
gone: zgpu01 and zgpu07, asked opsbob of fusiongrp

USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
frankp     77123  1.0  0.1 123456  7890 ?        Sl   10:00   0:01 python osprey_main.py --x

";

const KUBERNETES: &str = "\
$ kubectl describe pod osprey-worker-0-x7k2p
Name:             osprey-worker-0-x7k2p
Namespace:        team-osprey
Service Account:  osprey-sa
Node:             knode-19/10.77.12.200
Labels:           app=osprey-label-value
                  nvidia.com/gpu.product=NVIDIA-H100
Annotations:      note.osprey: osprey-annotation-value
Status:           Running
Containers:
  main:
    Container ID:  containerd://4d5e6f7081924d5e6f7081924d5e6f7081924d5e6f7081924d5e6f7081924d5e
    Image:         registry.osprey.example/llm:7
    Environment:
      RUN_MODE:   osprey-env-value
      HF_TOKEN:   <set to the key 'token' in secret 'osprey-hf-secret'>
Volumes:
  data:
    ClaimName:  osprey-claim-data
  s:
    SecretName:  osprey-hf-secret
Events:
  Normal  Scheduled  5m  default-scheduler  Successfully assigned team-osprey/osprey-worker-0-x7k2p to knode-19
  Normal  Pulling    5m  kubelet            Pulling image \"registry.osprey.example/llm:7\"

NAME                    READY   STATUS    RESTARTS   AGE   IP             NODE       NOMINATED NODE
osprey-worker-0-x7k2p   1/1     Running   0          5m    10.77.12.201   knode-19   <none>

CONTAINER ID   IMAGE                           COMMAND                  CREATED       STATUS       PORTS     NAMES
4d5e6f708192   registry.osprey.example/llm:7   \"python osprey_main.py\"   2 hours ago   Up 2 hours             osprey_trainer_1

listening at tcp://zbroker9:4444, osprey-head-svc.team-osprey.svc.cluster.local:29500, --rdzv_endpoint=zrdzv-host4:29400
the pod osprey-worker-0-x7k2p of team-osprey waits on knode-19
";

const CLOUD: &str = "\
data in s3://osprey-bucket-s3/shard and gs://osprey-bucket-gs/shard, https://ospreyblobstore.blob.core.windows.net/x?sig=1
role arn:aws:iam::998877665544:role/osprey-role-arn, AccountKey=plantedaccountkey==
projects/osprey-project-42/zones/us-central1-a/instances/knode-19
/subscriptions/5e0f1a2b-3c4d-4e5f-a6b7-c8d9e0f1a2b3/resourceGroups/osprey-rg-azure/providers/Microsoft.Compute
ssh carolx@10.77.12.200 from ip-10-77-12-200.us-west-2.compute.internal
[zmpi31:77123] *** Process received signal ***
mpirun noticed that process rank 3 with PID 0 on node zmpi31 exited on signal 11
Local host:   zmpi31
connection refused from host zmsg44, see \\\\zshare-srv\\OspreyData and /u/erinz/run
C:\\Users\\dave.osprey\\OspreyData\\train.log
";

const HARDWARE: &str = "\
Chassis: S/N: SNP77112233X, BMC serial: SER99887711Q
    Vendor SN                                 : MODSN4455667
    Service Tag: TAGQ7J2K
Base MAC:              1c34daaa7b77
port 7 learned 1c34.daaa.7b99
       logical name: lan-osprey
devices GPU-5c6d7e8f and GPU-5c6d7e8f
index, serial, uuid
0, 1650999111777, GPU-7c3f9a12-58d4-4be1-9c07-a1b2c3d4e5f6

";

const FABRIC: &str = "\
CA    42  1 0x1c34da0300aa7b51 4x EDR - SW     1 17 0x1c34da0300aa7c10 ( 'zibhost21 mlx5_0' - 'zleaf-05' )
CA    43  1 0x1c34da0300aa7b52 4x EDR - SW     1 18 0x1c34da0300aa7c10 ( 'zibhost22 mlx5_0' - 'zleaf-05' )
SW     1 17 0x1c34da0300aa7c10 4x EDR - CA    42  1 0x1c34da0300aa7b51 ( 'zleaf-05' - 'zibhost21 mlx5_0' )
SW     1 20 0x1c34da0300aa7c10 4x SDR                                    'zleaf-05'

Switch\t41 \"S-1c34da0300aa7c10\"\t\t# \"MF0;zspine-02:MQM8700/U1\" enhanced port 0 lid 31281 lmc 0
[1]\t\"H-1c34da0300aa7b51\"[1](1c34da0300aa7b51) \t\t# \"zibhost21 mlx5_0\" lid 31281 4xEDR
Ca\t1 \"H-1c34da0300aa7b51\"\t\t# \"zibhost21 mlx5_0\"
[1](1c34da0300aa7b51) \t\"S-1c34da0300aa7c10\"[1]\t\t# lid 31281 lmc 0 \"zspine-02\" lid 31281 4xEDR
";

/// The ending of the file and the text of each source.
pub(crate) fn sources() -> Vec<(&'static str, String)> {
    // beside a table, so that there is a machine to report on
    let topology = "\n\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n";
    [
        ("keys.txt", KEYS),
        ("slurm.txt", SLURM),
        ("kubernetes.txt", KUBERNETES),
        ("cloud.txt", CLOUD),
        ("hardware.txt", HARDWARE),
        ("fabric.txt", FABRIC),
    ]
    .into_iter()
    .map(|(name, text)| (name, format!("{text}{topology}")))
    .collect()
}
