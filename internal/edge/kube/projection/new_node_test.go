// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

func TestNodePools_requirementsAndLimits_boundTheSize(t *testing.T) {
	cpu := func(cores int64) cluster.Resources { return cluster.Resources{}.Set(cluster.CPU, cores*1000) }
	const requirements = `{"spec":{"template":{"spec":{"requirements":[`
	for name, c := range map[string]struct {
		pool string
		want []cluster.NewNode
	}{
		"no bounds":       {`{"spec":{}}`, []cluster.NewNode{{}}},
		"limits":          {`{"spec":{"limits":{"cpu":"100","memory":"400Gi"}}}`, []cluster.NewNode{{Size: cluster.Amounts(100_000, 400<<30)}}},
		"limits of zero":  {`{"spec":{"limits":{"cpu":"0"}}}`, []cluster.NewNode{{Size: cpu(0), Unsized: true}}},
		"being deleted":   {`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`, nil},
		"listed sizes":    {requirements + `{"key":"karpenter.k8s.aws/instance-cpu","operator":"In","values":["4","16","8"]}]}}}}`, []cluster.NewNode{{Size: cpu(16)}}},
		"less than":       {requirements + `{"key":"karpenter.k8s.aws/instance-cpu","operator":"Lt","values":["17"]}]}}}}`, []cluster.NewNode{{Size: cpu(16)}}},
		"greater than":    {requirements + `{"key":"karpenter.k8s.aws/instance-cpu","operator":"Gt","values":["17"]}]}}}}`, []cluster.NewNode{{}}},
		"not a number":    {requirements + `{"key":"karpenter.k8s.aws/instance-cpu","operator":"In","values":["many"]}]}}}}`, []cluster.NewNode{{}}},
		"memory in MiB":   {requirements + `{"key":"karpenter.azure.com/sku-memory","operator":"Lt","values":["2"]}]}}}}`, []cluster.NewNode{{Size: cluster.Resources{}.Set(cluster.Memory, 1<<20)}}},
		"largest int64":   {requirements + `{"key":"karpenter.k8s.aws/instance-memory","operator":"In","values":["9223372036854775807"]}]}}}}`, nil},
		"other keys":      {requirements + `{"key":"kubernetes.io/arch","operator":"In","values":["1"]}]}}}}`, []cluster.NewNode{{}}},
		"both, and taint": {`{"spec":{"limits":{"cpu":"8"},"template":{"spec":{"taints":[{"key":"gpu","effect":"NoSchedule"}],"requirements":[{"key":"karpenter.k8s.aws/instance-cpu","operator":"In","values":["16"]}]}}}}`, []cluster.NewNode{{Size: cpu(8), Taints: []cluster.Taint{{Key: "gpu", Effect: "NoSchedule"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NodePools([]byte(`{"items":[` + c.pool + `]}`))
			for i := range got {
				got[i].NodeGroup = cluster.NodeGroup{}
			}
			if name == "largest int64" {
				if err != nil || len(got) != 1 || got[0].Size.Memory <= 0 {
					t.Errorf("got %+v (%v), want a large positive size", got, err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v (%v), want %+v", got, err, c.want)
			}
		})
	}
	garbage := `{"items":[{"spec":{"limits":{"cpu":"many"}}},3,{"spec":{"limits":{"cpu":"1e18","memory":"-1"}}},{"spec":{"limits":{"cpu":"8"}}}]}`
	if got, err := NodePools([]byte(garbage)); err != nil || len(got) != 2 || !got[0].Unsized || got[1].Size != cpu(8) {
		t.Errorf("garbage beside a pool: got %+v (%v), want the pool", got, err)
	}
	if got, err := NodePools([]byte(`{"items":3}`)); err == nil {
		t.Errorf("got %+v of an invalid list, want an error", got)
	}
}

// A static pool has a fixed number of nodes.
func TestNodePools_static_addsNoNodes(t *testing.T) {
	for name, c := range map[string]struct {
		spec   string
		static bool
	}{
		"static":           {`"replicas":3,"limits":{"nodes":"10"}`, true},
		"without nodes":    {`"replicas":0`, true},
		"of negative size": {`"replicas":-1`, true},
		"not static":       {`"replicas":null,"limits":{"nodes":"10"}`, false},
	} {
		got, err := NodePools([]byte(`{"items":[{"metadata":{"name":"fixed"},"spec":{` + c.spec + `},"status":{"resources":{"nodes":"3"}}}]}`))
		want := cluster.NewNode{Unsized: c.static, NodeGroup: cluster.NodeGroup{Name: "NodePool/fixed", Counted: true}}
		if !c.static {
			want.More = 7
		}
		if err != nil || !reflect.DeepEqual(got, []cluster.NewNode{want}) {
			t.Errorf("%s: %+v (%v), want %+v", name, got, err, want)
		}
	}
	for _, replicas := range []string{`"many"`, "1e30", "{}"} {
		if got, err := NodePools([]byte(`{"items":[{"spec":{"replicas":` + replicas + `}},{"spec":{}}]}`)); err != nil || len(got) != 1 {
			t.Errorf("%s replicas: %+v (%v), want the other pool", replicas, got, err)
		}
	}
}

// A pool whose status lacks the amount of a limit, or with a limit on another resource, grows by an unknown amount.
func TestNodePools_limitsAndStatus_boundTheGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		limits, status string
		want           cluster.NodeGroup
	}{
		"no limits":           {"", `"cpu":"8"`, cluster.NodeGroup{}},
		"CPU":                 {`"cpu":"100"`, `"cpu":"92","memory":"8Gi"`, cluster.NodeGroup{Room: cluster.Resources{}.Set(cluster.CPU, 8000)}},
		"both":                {`"cpu":"100","memory":"64Gi"`, `"cpu":"92","memory":"8Gi"`, cluster.NodeGroup{Room: cluster.Amounts(8000, 56<<30)}},
		"nodes":               {`"nodes":"5"`, `"nodes":"3"`, cluster.NodeGroup{Counted: true, More: 2}},
		"more nodes than may": {`"nodes":"5"`, `"nodes":"7"`, cluster.NodeGroup{Counted: true}},
		"more CPU than may":   {`"cpu":"4"`, `"cpu":"6"`, cluster.NodeGroup{Room: cluster.Resources{}.Set(cluster.CPU, -2000)}},
		"no status":           {`"cpu":"100"`, "", cluster.NodeGroup{}},
		"half of the status":  {`"cpu":"100","memory":"64Gi"`, `"cpu":"100"`, cluster.NodeGroup{}},
		"another resource":    {`"cpu":"100","nvidia.com/gpu":"4"`, `"cpu":"92","nvidia.com/gpu":"1"`, cluster.NodeGroup{}},
		"negative status":     {`"cpu":"4"`, `"cpu":"-1E"`, cluster.NodeGroup{Room: cluster.Resources{}.Set(cluster.CPU, 4000)}},
		"negative nodes":      {`"nodes":"5"`, `"nodes":"-3"`, cluster.NodeGroup{}},
		"10^12 nodes":         {`"nodes":"1T"`, `"nodes":"3"`, cluster.NodeGroup{}},
	} {
		got, err := NodePools([]byte(`{"items":[{"metadata":{"name":"general"},"spec":{"limits":{` + c.limits + `}},"status":{"resources":{` + c.status + `}}}]}`))
		c.want.Name = "NodePool/general"
		if err != nil || len(got) != 1 || got[0].NodeGroup != c.want {
			t.Errorf("%s: got %+v (%v), want %+v", name, got, err, c.want)
		}
	}
}

func TestMachineDeployments_annotations_describeTheNode(t *testing.T) {
	const described = `"capacity.cluster-autoscaler.kubernetes.io/cpu":"8","capacity.cluster-autoscaler.kubernetes.io/memory":"32Gi","capacity.cluster-autoscaler.kubernetes.io/taints":"gpu=yes:NoSchedule, soft:PreferNoSchedule"`
	const managed = `"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size":`
	more := func(n int) *cluster.NodeGroup { return &cluster.NodeGroup{Counted: true, More: n} }
	for name, c := range map[string]struct {
		annotations, spec string
		sized             bool
		want              *cluster.NodeGroup // nil: the group is left out
	}{
		"three of five":          {managed + `"5",` + described, `{"replicas":3}`, true, more(2)},
		"five of five":           {managed + `"5",` + described, `{"replicas":5}`, true, more(0)},
		"more than may":          {managed + `"5",` + described, `{"replicas":9}`, true, more(0)},
		"replicas not known":     {managed + `"5",` + described, `{}`, true, &cluster.NodeGroup{}},
		"negative replicas":      {managed + `"5",` + described, `{"replicas":-1}`, true, &cluster.NodeGroup{}},
		"10^9 nodes":             {managed + `"1000000000",` + described, `{"replicas":1}`, true, &cluster.NodeGroup{}},
		"negative maximum":       {managed + `"-5",` + described, `{"replicas":1}`, true, nil},
		"maximum is no number":   {managed + `"NaN",` + described, `{"replicas":1}`, true, nil},
		"maximum is too large":   {managed + `"99999999999999999999",` + described, `{"replicas":1}`, true, nil},
		"not autoscaled":         {managed + `"0",` + described, `{"replicas":1}`, true, nil},
		"none":                   {"", `{"replicas":1}`, false, nil},
		"no capacity":            {managed + `"5"`, `{"replicas":3}`, false, more(2)},
		"capacity of zero":       {managed + `"5","capacity.cluster-autoscaler.kubernetes.io/memory":"0","capacity.cluster-autoscaler.kubernetes.io/cpu":"8"`, `{"replicas":3}`, false, more(2)},
		"capacity is no size":    {managed + `"5","capacity.cluster-autoscaler.kubernetes.io/memory":"much","capacity.cluster-autoscaler.kubernetes.io/cpu":"8"`, `{"replicas":3}`, false, more(2)},
		"replicas are no number": {managed + `"5"`, `{"replicas":"many"}`, false, nil},
	} {
		got, err := MachineDeployments([]byte(`{"items":[{"metadata":{"namespace":"prod","name":"md-0","annotations":{` + c.annotations + `}},"spec":` + c.spec + `}]}`))
		switch {
		case err != nil || len(got) > 1 || (len(got) == 1) != (c.want != nil):
			t.Errorf("%s: got %+v (%v)", name, got, err)
		case c.want == nil:
		default:
			c.want.Name = "MachineDeployment/prod/md-0"
			taint := []cluster.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}}
			if n := got[0]; n.NodeGroup != *c.want || n.Unsized == c.sized || c.sized && (n.Size != cluster.Amounts(8000, 32<<30) || !reflect.DeepEqual(n.Taints, taint)) {
				t.Errorf("%s: got %+v, want %+v", name, n, c.want)
			}
		}
	}
	if got, err := MachineDeployments([]byte(`{"items":3}`)); err == nil {
		t.Errorf("got %+v of an invalid list, want an error", got)
	}
}

// The autoscaler reads the annotation in the same way.
func TestMachineDeployments_labels_areThoseOfTheFirstNode(t *testing.T) {
	const linux = "kubernetes.io/os=linux"
	for annotation, want := range map[string][]string{
		"":                      {linux},
		"pool=blue,disk=ssd":    {"disk=ssd", linux, "pool=blue"},
		"kubernetes.io/os=none": {"kubernetes.io/os=none"},
		"pool=blue,pool=red":    {linux, "pool=red"},
		",,=,pool,":             {"=", linux},
		"a=b=c":                 {"a=b=c", linux},
		"pool=":                 {linux, "pool="},
	} {
		text, err := json.Marshal(map[string]string{groupMaxSize: "3", groupLabels: annotation})
		if err != nil {
			t.Fatal(err)
		}
		got, err := MachineDeployments([]byte(`{"items":[{"metadata":{"name":"md-0","annotations":` + string(text) + `}}]}`))
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0].Labels, want) {
			t.Errorf("%q: %+v (%v), want %q", annotation, got, err, want)
		}
	}
}

// statusAt is a time at which the status of autoscalerStatus is new.
var statusAt = time.Date(2026, 11, 24, 4, 28, 25, 0, time.UTC)

// autoscalerStatus returns the status ConfigMap of the cluster autoscaler with some groups, in JSON.
func autoscalerStatus(t *testing.T, groups string) []byte {
	t.Helper()
	const head = "time: \"2026-11-24 04:28:19.546750398 +0000 UTC\"\nautoscalerStatus: Running\nclusterWide:\n  health:\n    status: Healthy\nnodeGroups:\n"
	out, err := json.Marshal(map[string]any{"kind": "ConfigMap", "data": map[string]string{"status": head + groups}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func groupText(name string, target, most any, scaleUp string) string {
	return fmt.Sprintf("- name: %s\n  health:\n    status: Healthy\n    nodeCounts:\n      registered:\n        total: 11\n        ready: 4\n    cloudProviderTarget: %v\n    minSize: 2\n    maxSize: %v\n  scaleUp:\n    status: %s\n    backoffInfo:\n      errorCode: QUOTA_EXCEEDED\n", name, target, most, scaleUp)
}

func TestAutoscalerStatus_groups_haveTheirGrowth(t *testing.T) {
	text := groupText("asg-1", 8, 12, "NoActivity") + groupText("MachineDeployment/prod/md-0", 5, 5, "InProgress") + groupText("asg-2", 0, 3, "Backoff")
	got, err := AutoscalerStatus(statusAt, autoscalerStatus(t, text))
	want := []cluster.NodeGroup{
		{Name: "asg-1", Counted: true, More: 4}, {Name: "MachineDeployment/prod/md-0", Counted: true}, {Name: "asg-2", Counted: true, More: 3, BackedOff: true},
	}
	if err != nil || !reflect.DeepEqual(cluster.Each(got, func(n *cluster.NewNode) cluster.NodeGroup { return n.NodeGroup }), want) || !got[0].Unsized {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
	if got, err := AutoscalerStatus(statusAt, []byte("{}")); err != nil || got != nil {
		t.Errorf("without a ConfigMap: %+v (%v)", got, err)
	}
}

// What is not usable is reported, and does not hide the rest.
func TestAutoscalerStatus_badInput_isBoundedAndReported(t *testing.T) {
	good := groupText("good", 1, 2, "NoActivity")
	status := func(text string) []byte {
		out, _ := json.Marshal(map[string]any{"data": map[string]string{"status": text}})
		return out
	}
	for name, c := range map[string]struct {
		object []byte
		groups int
		want   string
	}{
		"negative maximum":     {autoscalerStatus(t, groupText("bad", 1, -2, "NoActivity")+good), 1, "1 of 2 node groups"},
		"negative target":      {autoscalerStatus(t, groupText("bad", -1, 2, "NoActivity")+good), 1, "1 of 2 node groups"},
		"10^18 nodes":          {autoscalerStatus(t, groupText("bad", 1, "1000000000000000000", "NoActivity")+good), 1, "1 of 2 node groups"},
		"a text as maximum":    {autoscalerStatus(t, groupText("bad", 1, "many", "NoActivity")+good), 1, "1 of 2 node groups"},
		"no maximum":           {autoscalerStatus(t, "- name: bad\n"+good), 1, "1 of 2 node groups"},
		"no name":              {autoscalerStatus(t, groupText(`""`, 1, 2, "NoActivity")+good), 1, "1 of 2 node groups"},
		"a group is a number":  {autoscalerStatus(t, "- 7\n"+good), 1, "1 of 2 node groups"},
		"NaN":                  {autoscalerStatus(t, groupText("bad", 1, ".nan", "NoActivity")+good), 0, "YAML"},
		"too many groups":      {autoscalerStatus(t, strings.Repeat(good, 1500)), 1000, "500 of 1500 node groups"},
		"the text before 1.30": {status("Cluster-autoscaler status at 2023-11-24 04:28:19 +0000 UTC:\nCluster-wide:\n  Health:      Healthy (ready=3)\n"), 0, "newer than 15m0s"},
		"initializing":         {status("Initializing"), 0, "YAML"},
		"an old status":        {bytes.Replace(autoscalerStatus(t, good), []byte("2026-11-24"), []byte("2026-11-23"), 1), 0, "newer than 15m0s"},
		"no time":              {status("nodeGroups:\n" + good), 0, "newer than 15m0s"},
		"no JSON":              {[]byte("x"), 0, "invalid character"},
	} {
		got, err := AutoscalerStatus(statusAt, c.object)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(got) != c.groups {
			t.Errorf("%s: %d groups, %v", name, len(got), err)
		}
	}
}

func TestNode_group_isThatOfItsAutoscaler(t *testing.T) {
	machine := func(kind, owner, namespace string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			"cluster.x-k8s.io/owner-kind": kind, "cluster.x-k8s.io/owner-name": owner, "cluster.x-k8s.io/cluster-namespace": namespace,
		}}}
	}
	for want, node := range map[string]corev1.Node{
		"":                            {},
		"NodePool/general":            {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"karpenter.sh/nodepool": "general"}}},
		"MachineDeployment/prod/md-0": machine("MachineSet", "md-0-7d9f", "prod"),
	} {
		if got := Node(&node, nil).Group; got != want {
			t.Errorf("group %q, want %q", got, want)
		}
	}
	for _, node := range []corev1.Node{machine("KubeadmControlPlane", "prod-cp", "prod"), machine("MachineSet", "md", "prod"), machine("MachineSet", "", "")} {
		if got := Node(&node, nil).Group; got != "" {
			t.Errorf("group %q of %v", got, node.Annotations)
		}
	}
}
