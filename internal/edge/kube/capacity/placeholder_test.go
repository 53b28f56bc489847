// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/kubetest"
)

const (
	shopPods  = "/api/v1/namespaces/shop/pods"
	classPath = "/apis/scheduling.k8s.io/v1/priorityclasses/" + projection.PlaceholderClass
	reviews   = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
)

func failure(code int, reason, message string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q,"details":{"name":"x"}}`, code, reason, message)
}

func TestPlaceholders_pod_getsPlaceholderWithItsConstraints(t *testing.T) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1-0", UID: "u7", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			NodeName: "n1", NodeSelector: map[string]string{"disk": "ssd"}, SchedulerName: "other", PriorityClassName: "high",
			Tolerations:               []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
			Affinity:                  &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "zone", MaxSkew: 1}},
			Volumes:                   []corev1.Volume{{Name: "data"}},
			Containers: []corev1.Container{
				{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "example.com/gpu": resource.MustParse("1")}}},
				{Name: "log", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"ephemeral-storage": resource.MustParse("1Gi"), "example.com/gpu": resource.MustParse("2")}}},
			},
		},
	}
	got := (&Placeholders{image: "mirror/pause"}).build(p, cluster.Amounts(2500, 1<<30))
	spec := &got.Spec
	if spec.NodeName != "" || len(spec.Volumes) != 0 || spec.PriorityClassName != projection.PlaceholderClass || spec.SchedulerName != "other" || spec.Containers[0].Image != "mirror/pause" {
		t.Errorf("spec %+v", spec)
	}
	for _, diff := range []string{
		cmp.Diff(p.Spec.NodeSelector, spec.NodeSelector), cmp.Diff(p.Spec.Tolerations, spec.Tolerations), cmp.Diff(p.Spec.Affinity, spec.Affinity),
		cmp.Diff(p.Spec.TopologySpreadConstraints, spec.TopologySpreadConstraints),
	} {
		if diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	requests := spec.Containers[0].Resources.Requests
	if len(requests) != 4 || requests.Cpu().MilliValue() != 2500 || requests.Memory().Value() != 1<<30 || requests.Name("example.com/gpu", "").Value() != 3 {
		t.Errorf("requests %v", requests)
	}
	if limits := spec.Containers[0].Resources.Limits; len(limits) != 1 || limits.Name("example.com/gpu", "").Value() != 3 {
		t.Errorf("limits %v, want those of the device only", limits)
	}
	if got.Labels["app"] != "" || metav1.GetControllerOf(got) != nil || got.OwnerReferences[0].UID != "u7" || *spec.AutomountServiceAccountToken {
		t.Errorf("metadata %+v", got.ObjectMeta)
	}
	if !projection.IsPlaceholder(got) || projection.IsPlaceholder(p) || got.Annotations[projection.PlaceholderUID] != "u7" || got.Annotations[projection.PlaceholderPod] != "web-1-0" {
		t.Errorf("metadata %+v", got.ObjectMeta)
	}
}

func TestIsPlaceholder_marksAreIncomplete_isNone(t *testing.T) {
	whole := (&Placeholders{}).build(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u7"}}, cluster.Resources{})
	for name, change := range map[string]func(*corev1.Pod){
		"label":         func(p *corev1.Pod) { p.Labels = nil },
		"PriorityClass": func(p *corev1.Pod) { p.Spec.PriorityClassName = "" },
	} {
		p := whole.DeepCopy()
		change(p)
		if projection.IsPlaceholder(p) {
			t.Errorf("a pod without the %s is taken for a placeholder", name)
		}
	}
}

func TestPlaceholders_create_outcomes(t *testing.T) {
	name := cluster.PlaceholderFor("shop", "u7").Name
	existing := func(uid, phase string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":"p1","labels":{%q:"true"},"annotations":{%q:%q}},
			"spec":{"priorityClassName":%q,"containers":[]},"status":{"phase":%q}}`, name, projection.PlaceholderLabel, projection.PlaceholderUID, uid, projection.PlaceholderClass, phase)
	}
	for title, c := range map[string]struct {
		uid      string // of the pod
		code     int
		reply    string
		existing string
		want     error
		deletes  bool
	}{
		"created":                {uid: "u7"},
		"pod was replaced":       {uid: "u6", want: kube.ErrNotFound},
		"over quota":             {uid: "u7", code: 403, reply: failure(403, "Forbidden", `pods "x" is forbidden: exceeded quota: q`), want: kube.ErrQuota},
		"no permission":          {uid: "u7", code: 403, reply: failure(403, "Forbidden", `pods is forbidden: User "x" cannot create resource "pods"`), want: kube.ErrForbidden},
		"denied by a webhook":    {uid: "u7", code: 400, reply: failure(400, "BadRequest", `admission webhook "g" denied the request: no`), want: kube.ErrDenied},
		"exists":                 {uid: "u7", code: 409, reply: failure(409, "AlreadyExists", "exists"), existing: existing("u7", "Pending")},
		"exists and has ended":   {uid: "u7", code: 409, reply: failure(409, "AlreadyExists", "exists"), existing: existing("u7", "Failed"), want: kube.ErrBusy, deletes: true},
		"name of another pod":    {uid: "u7", code: 409, reply: failure(409, "AlreadyExists", "exists"), existing: existing("u1", "Pending"), want: kube.ErrDenied},
		"deleted at that moment": {uid: "u7", code: 409, reply: failure(409, "AlreadyExists", "exists"), want: kube.ErrBusy},
	} {
		t.Run(title, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			f.ApplyPod("shop", "web-1-0", "ReplicaSet", "web-1")
			owner := f.Object("/api/v1/pods", "shop/web-1-0")
			uid, _ := kubetest.MetaOf(owner)["uid"].(string)
			p := podToMove()
			if p.UID = uid; c.uid != "u7" {
				p.UID = c.uid
			}
			name = cluster.PlaceholderOf(p).Name
			if c.existing != "" {
				f.Apply("/api/v1/pods", strings.Replace(strings.Replace(c.existing, cluster.PlaceholderFor("shop", "u7").Name, name, 1), `"u7"`, `"`+p.UID+`"`, 1))
			}
			if c.code != 0 {
				f.Reply("POST "+shopPods, c.code, c.reply)
			}
			err := NewPlaceholders(clientsOf(f), "pause").Create(t.Context(), p, cluster.Amounts(100, 1<<20))
			if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if got := slices.Contains(f.Requests(), "DELETE "+shopPods+"/"+name); got != c.deletes {
				t.Errorf("deleted: %t, want %t: %v", got, c.deletes, f.Requests())
			}
		})
	}
}

func TestPlaceholders_deleteOfMissingPod_isNoError(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	p := &cluster.CapacityRequest{Key: cluster.Key{Namespace: "shop", Name: "gone"}, UID: "u1"}
	if err := NewPlaceholders(clientsOf(f), "pause").Delete(t.Context(), p); err != nil {
		t.Error(err)
	}
	f.Reply("DELETE "+shopPods+"/gone", 403, failure(403, "Forbidden", "no"))
	if err := NewPlaceholders(clientsOf(f), "pause").Delete(t.Context(), p); !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("error %v, want %v", err, kube.ErrForbidden)
	}
}

func TestPlaceholders_available_namesTheProblem(t *testing.T) {
	class := func(value int, policy string) string {
		return fmt.Sprintf(`{"kind":"PriorityClass","apiVersion":"scheduling.k8s.io/v1","metadata":{"name":%q},"value":%d,"preemptionPolicy":%q}`, projection.PlaceholderClass, value, policy)
	}
	review := func(allowed bool) string {
		return fmt.Sprintf(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{},"status":{"allowed":%t}}`, allowed)
	}
	for name, c := range map[string]struct {
		code          int
		class, review string
		dryRun        bool
		want          string
		fails         bool
	}{
		"available":                 {200, class(-10, "Never"), review(true), false, "", false},
		"no PriorityClass":          {404, failure(404, "NotFound", "not found"), review(true), false, "does not exist", false},
		"no permission to get it":   {403, failure(403, "Forbidden", "no"), review(true), false, "no permission to get", false},
		"priority is not negative":  {200, class(0, "Never"), review(true), false, "negative value", false},
		"preempts other pods":       {200, class(-10, "PreemptLowerPriority"), review(true), false, "preemptionPolicy Never", false},
		"no permission to create":   {403, failure(403, "Forbidden", "no"), review(false), false, "no permission to create", false},
		"dry run checks no further": {200, class(-10, "Never"), review(false), true, "", false},
		"server fails":              {500, failure(500, "InternalError", "broken"), review(true), false, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			f.Reply("GET "+classPath, c.code, c.class)
			f.Reply(reviews, 201, c.review)
			problem, err := NewPlaceholders(clientsOf(f), "pause").Available(t.Context(), c.dryRun)
			if (err != nil) != c.fails || !strings.Contains(problem, c.want) || c.want == "" && problem != "" {
				t.Errorf("problem %q, error %v, want %q", problem, err, c.want)
			}
			if n := f.Refusals("GET " + classPath); c.review == review(false) && !c.dryRun && n > 0 {
				t.Errorf("%d requests for the PriorityClass without the right to create pods", n)
			}
		})
	}
}

func podToMove() *cluster.Pod {
	return &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-1-0"}, UID: "u7"}
}

// clientsOf returns clients of a fake API.
func clientsOf(f *kubetest.FakeAPI) *kube.Clients {
	cs, err := kube.ClientsFor(f.Config())
	if err != nil {
		panic(err)
	}
	return cs
}
