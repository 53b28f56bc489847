// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/explanation"
)

// controllers is a finder of a cluster with the given nodes and workloads, in which a ReplicaSet web-1 belongs to the Deployment web.
type controllers struct {
	nodes     []string
	workloads []cluster.Workload
}

func (c controllers) Nodes() []cluster.Node {
	var out []cluster.Node
	for _, name := range c.nodes {
		out = append(out, cluster.Node{Name: name})
	}
	return out
}

func (c controllers) Workloads(group, kind, namespace string) []cluster.Workload {
	return slices.DeleteFunc(slices.Clone(c.workloads), func(w cluster.Workload) bool {
		return w.Group != group || w.Kind != kind || w.Namespace != namespace
	})
}

func (c controllers) Top(w cluster.Workload) (cluster.Workload, bool) {
	if w.Kind == "ReplicaSet" && w.Name == "web-1" {
		return workload("apps", "Deployment", "web"), true
	}
	return cluster.Workload{}, false
}

func workload(group, kind, name string) cluster.Workload {
	return cluster.Workload{Group: group, Kind: kind, Namespace: "shop", Name: name}
}

// objects returns pods of a Deployment, of a kind that is not part of Kubernetes and without a controller, and VPAs.
func objects() *cluster.Snapshot {
	pod := func(namespace, name, node string, top cluster.Workload) *cluster.Pod {
		return &cluster.Pod{Key: cluster.Key{Namespace: namespace, Name: name}, UID: namespace + name, Node: node, Top: top, Phase: cluster.Running}
	}
	vpa := func(namespace, name string, target cluster.Workload) *cluster.Autoscaler {
		return &cluster.Autoscaler{Key: cluster.Key{Namespace: namespace, Name: name}, Target: target, Mode: cluster.Recreate}
	}
	elsewhere := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "other", Name: "web"}
	return cluster.NewSnapshot(
		[]*cluster.Pod{
			pod("shop", "web-1-a", "n1", workload("apps", "Deployment", "web")), pod("shop", "db-0", "n2", workload("postgres.test", "Cluster", "db")),
			pod("other", "web-1-a", "n1", elsewhere), pod("shop", "alone", "gone", cluster.Workload{}),
		},
		[]*cluster.Autoscaler{
			vpa("other", "web", elsewhere), vpa("shop", "web", workload("apps", "Deployment", "web")), vpa("shop", "queue", workload("mq.test", "Queue", "queue")),
		},
	)
}

func TestFind_reference_returnsItsObject(t *testing.T) {
	known := controllers{[]string{"n1", "n2"}, []cluster.Workload{workload("apps", "Deployment", "idle")}}
	unknown := controllers{}
	for name, tt := range map[string]struct {
		text    string
		cluster controllers
		want    string // name of the subject, its pods, its VPA and its command
	}{
		"Deployment":                      {"Deploy/web", known, "shop/Deployment/web shop/web-1-a shop/web deploy/web"},
		"with its group":                  {"deployments.apps/web", known, "shop/Deployment/web shop/web-1-a shop/web deploy/web"},
		"ReplicaSet of it":                {"rs/web-1", known, "shop/Deployment/web shop/web-1-a shop/web deploy/web"},
		"without pods and VPA":            {"deploy/idle", known, "shop/Deployment/idle   deploy/idle"},
		"with a VPA of another namespace": {"vpa/web", known, "shop/VPA/web shop/web-1-a shop/web deploy/web"},
		"pod of both namespaces":          {"pod/web-1-a", known, "shop/Pod/web-1-a shop/web-1-a shop/web deploy/web"},
		"pod without a controller":        {"pod/alone", known, "shop/Pod/alone shop/alone  "},
		"node":                            {"node/n1", known, "n1 other/web-1-a,shop/web-1-a  "},
		"node that cannot be listed":      {"node/gone", unknown, "gone shop/alone  "},
		"other kind with pods":            {"cluster/db", known, "shop/Cluster.postgres.test/db shop/db-0  cluster.postgres.test/db"},
		"other kind by its group":         {"clusters.postgres.test/db", known, "shop/Cluster.postgres.test/db shop/db-0  cluster.postgres.test/db"},
		"other kind with a VPA":           {"queue/queue", known, "shop/Queue.mq.test/queue  shop/queue queue.mq.test/queue"},
	} {
		r, err := parseReference([]string{tt.text})
		if err != nil {
			t.Fatal(err)
		}
		r.namespace = "shop"
		s, err := find(r, objects(), tt.cluster)
		var pods []string
		for _, p := range s.Pods {
			pods = append(pods, p.Key.String())
		}
		vpa := ""
		if s.Autoscaler != nil {
			vpa = s.Autoscaler.Key.String()
		}
		if got := strings.Join([]string{s.Name, strings.Join(pods, ","), vpa, s.Command}, " "); err != nil || got != tt.want {
			t.Errorf("%s: got %q and error %v, want %q", name, got, err, tt.want)
		}
	}
}

func TestFind_noSuchObject_errorNamesTheRemedy(t *testing.T) {
	nodes := controllers{[]string{"n1", "n2"}, []cluster.Workload{workload("apps", "Deployment", "checkout"), workload("apps", "Deployment", "a;b")}}
	for text, tt := range map[string]struct {
		cluster controllers
		want    string
	}{
		"node/n3":             {nodes, `there is no node "n3" (did you mean n`},
		"node/n4":             {controllers{}, "and no node can be listed. Check its name, and your rights: kubectl auth can-i list nodes"},
		"pod/db-1":            {nodes, "did you mean db-0?"},
		"pod/nothing-similar": {nodes, `there is no pod "nothing-similar" in namespace shop; select the namespace with -n`},
		"pod/checkout-7d9f8b6c5-x2htw": {
			nodes, `there is no pod "checkout-7d9f8b6c5-x2htw" in namespace shop; its name is like those of the pods of Deployment checkout. Run: podfit explain deploy/checkout -n shop`,
		},
		"pod/a;b-7d9f8b6c5-x2htw":     {nodes, "podfit explain 'deploy/a;b' -n shop"},
		"pod/payment-7d9f8b6c5-x2htw": {nodes, `select the namespace with -n`}, // there is no such Deployment
		"vpa/queues":                  {nodes, "did you mean queue?"},
		"deploy/chekout":              {nodes, `there is no Deployment "chekout" in namespace shop (did you mean checkout?)`},
		"deploy.batch/web":            {nodes, "did you mean"},
		"cluster.x.test/db":           {nodes, `there is no cluster "db" with pods or a VPA in namespace shop`},
		"cluster/db2":                 {nodes, `there is no cluster "db2" with pods or a VPA in namespace shop; the kinds of Kubernetes are cronjob, deploy, ds, job, node, pod, rc, rs, sts, vpa`},
		"deploi/web":                  {nodes, `unknown kind "deploi"; did you mean deploy/web?`},
	} {
		r, err := parseReference([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		r.namespace = "shop"
		if s, err := find(r, objects(), tt.cluster); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got subject %q and error %v, want the error %q", text, s.Name, err, tt.want)
		}
	}
}

func TestFind_inManyNamespaces_errorNamesSome(t *testing.T) {
	var vpas []*cluster.Autoscaler
	for _, namespace := range []string{"e", "d", "c", "b", "a"} {
		vpas = append(vpas, &cluster.Autoscaler{Key: cluster.Key{Namespace: namespace, Name: "web"}})
	}
	_, err := find(reference{kind: "vpa", name: "web", namespace: "shop"}, cluster.NewSnapshot(nil, vpas), controllers{})
	if want := `there is no VPA "web" in namespace shop; found in a, b, c and 2 more: podfit explain vpa/web -n a`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The search in other namespaces reads each pod a few times, and not once for each namespace.
func TestFind_nameInManyNamespaces_searchIsLinear(t *testing.T) {
	const namespaces = 200
	var pods []*cluster.Pod
	for n := range namespaces {
		in := fmt.Sprint("team-", n)
		for i := range 10 {
			pods = append(pods, &cluster.Pod{Key: cluster.Key{Namespace: in, Name: fmt.Sprint("web-", i)}, Top: cluster.Workload{Kind: "Deployment", Namespace: in, Name: "web"}})
		}
	}
	s := cluster.NewSnapshot(pods, nil)
	allocations := testing.AllocsPerRun(1, func() {
		if _, err := find(reference{kind: "rollout", name: "web", namespace: "shop"}, s, controllers{}); err == nil {
			t.Error("a Deployment was found as a Rollout")
		}
	})
	if most := 50.0 * float64(len(pods)); allocations > most {
		t.Errorf("%.0f allocations for %d pods, want at most %.0f", allocations, len(pods), most)
	}
}

func TestParseReference_forms_areReadOrRefused(t *testing.T) {
	for text, want := range map[string]string{
		"deploy/cart": "deploy  cart", "Deploy cart": "deploy  cart", "Rollouts.Argoproj.io/cart": "rollouts argoproj.io cart",
		"": "", "deploy": "", "deploy/": "", "/cart": "", "deploy/a/b": "", "deploy a b": "", "deploy/a b": "",
	} {
		r, err := parseReference(strings.Fields(text))
		if got := strings.Join([]string{r.kind, r.group, r.name}, " "); want != "" && (err != nil || got != want) || want == "" && err == nil {
			t.Errorf("%q: got %q and error %v, want %q", text, got, err, want)
		}
	}
}

func TestExactly_workload_isNotReadAsAnotherKind(t *testing.T) {
	for name, tt := range map[string]struct {
		of   cluster.Workload
		want string // name of the subject; "" for an error
	}{
		"pod":                 {cluster.Workload{Kind: "Pod", Namespace: "shop", Name: "alone"}, "shop/Pod/alone"},
		"Deployment":          {workload("apps", "Deployment", "web"), "shop/Deployment/web"},
		"only a VPA":          {workload("mq.test", "Queue", "queue"), "shop/Queue.mq.test/queue"},
		"kind named Node":     {workload("x.test", "Node", "n1"), ""},
		"kind named Pod":      {workload("x.test", "Pod", "alone"), ""},
		"no pods and no VPA":  {workload("apps", "Deployment", "idle"), ""},
		"pod that is deleted": {cluster.Workload{Kind: "Pod", Namespace: "shop", Name: "deleted"}, ""},
	} {
		s, err := exactly(tt.of, objects())
		if (err != nil) != (tt.want == "") || tt.want != "" && s.Name != tt.want {
			t.Errorf("%s: got subject %q and error %v, want %q", name, s.Name, err, tt.want)
		}
	}
}

func TestWithAutoscalers_twoVPAs_namesTheOtherAndTheGoverningOne(t *testing.T) {
	target := workload("apps", "Deployment", "web")
	off := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "a"}, Target: target, Mode: cluster.Off}
	on := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "b"}, Target: target, Mode: cluster.Recreate, Created: time.Unix(1, 0)}
	all := cluster.NewSnapshot(nil, []*cluster.Autoscaler{off, on})
	s := withAutoscalers(explanation.Subject{Workload: target, Autoscaler: off}, all)
	if s.Governing != on || len(s.Others) != 1 || s.Others[0] != on {
		t.Errorf("governing %v, others %v, want b for both", s.Governing, s.Others)
	}
	only := cluster.NewSnapshot(nil, []*cluster.Autoscaler{off})
	if got := cluster.Responsible(only.AutoscalersOf(target), true); got != off {
		t.Errorf("VPA %v, want the oldest one if none changes pods", got)
	}
	if s := withAutoscalers(explanation.Subject{}, all); s.Governing != nil || s.Others != nil {
		t.Errorf("a subject without a workload has VPAs: %v, %v", s.Governing, s.Others)
	}
}
