"""Values that the chart is rendered with, by what they are for."""

import os
import pathlib

from chart import ROOT

PROGRAMS = pathlib.Path(os.environ.get("SHOAL_BIN", ROOT / "build" / "bin"))
VALUES = {
    "default": {},
    "one small server": {
        "networkPolicy": {"enabled": False},
        "server": {"replicas": 1, "podDisruptionBudget": {"enabled": False}, "topologySpread": {"enabled": False}},
        "scheduler": {"persistence": {"enabled": False}, "reflection": True, "logEvents": False},
        "serviceAccount": {"create": False},
        "clientConfig": {"enabled": False},
    },
    "rdma on the nodes' network": {
        "server": {
            "replicas": 16,
            "ioThreads": 4,
            "transports": "rc",
            "netDevice": "mlx5_0:1",
            "slotMemory": "4GiB",
            "hostNetwork": True,
            "resources": {"limits": {"cpu": 8, "memory": "8Gi", "rdma/hca_shared_devices_a": 1}},
            "extraEnv": [{"name": "UCX_IB_NUM_PATHS", "value": "2"}],
            "flightRecorder": {"volume": {"persistentVolumeClaim": {"claimName": "flight-records"}}},
            "nodeSelector": {"pool": "reduction"},
            "tolerations": [{"key": "reduction", "operator": "Exists", "effect": "NoSchedule"}],
            "priorityClassName": "high",
            "podAnnotations": {"team": "training"},
            "podLabels": {"queue": "large"},
            "updateStrategy": "OnDelete",
        },
        "networkPolicy": {"nodes": [{"ipBlock": {"cidr": "10.0.0.0/16"}}]},
    },
    "several schedulers": {"scheduler": {"replicas": 3, "store": "etcd://etcd-0.etcd:2379,etcd-1.etcd:2379/shoal"}},
    "a second network": {
        "server": {
            "advertise": "10.20.0.0/16",
            "podAnnotations": {"k8s.v1.cni.cncf.io/networks": "data"},
        },
        "clientConfig": {"netDevice": "net1"},
    },
    "guarded": {
        "networkPolicy": {
            "trainers": [{"namespaceSelector": {"matchLabels": {"team": "training"}}, "podSelector": {}}],
            "operators": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        },
        "server": {"ioThreads": 2, "image": {"digest": "sha256:" + "0" * 64}},
        "scheduler": {"persistence": {"storageClass": "-"}, "image": {"tag": "nightly"}},
        "imagePullSecrets": [{"name": "registry"}],
        "fullnameOverride": "reduce",
    },
    "certificates in secrets": {
        "identities": {
            "source": "secrets",
            "secrets": {"scheduler": "of-scheduler", "server": "of-server", "operator": "of-operator"},
            "rules": "# all of them\nspiffe://prod.example/shoal/*  viewer\n",
        },
        "scheduler": {"persistence": {"enabled": False}},
        "server": {"flightRecorder": {"volume": {"persistentVolumeClaim": {"claimName": "flight-records"}}}},
    },
    "certificates of cert-manager": {
        "identities": {
            "source": "cert-manager",
            "certManager": {"trustDomain": "prod.example", "tenants": [{"name": "vision"}, {"name": "speech"}]},
            "rules": "grafana.prod.example viewer",
        },
        "scheduler": {
            "replicas": 3,
            "store": "etcd://etcd-0.etcd:2379/shoal",
            "storeSecrets": {"certificates": "of-etcd", "login": "login-of-etcd"},
            "podAnnotations": {"team": "training"},
        },
    },
}
