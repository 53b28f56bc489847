// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

const shopPods = "/api/v1/namespaces/shop/pods"

// The request is a dry run: without that, a pod that nobody asked for would start.
func TestReplacements_dryRun_sendsThePodWithoutTracesOfPodfit(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "r1"}
	sizes := func(cpu, memory, limit int64) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: kube.Quantities(cluster.Amounts(cpu, memory)), Limits: kube.Quantities(cluster.Amounts(limit, limit))}
	}
	asked, running := sizes(700, 250<<20, 1<<30), sizes(100, 50<<20, 1<<20) // a resize waits
	delete(asked.Requests, corev1.ResourceMemory)
	stored := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1-0", UID: "u7", ResourceVersion: "9", Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{owner},
			Annotations: map[string]string{"vpaUpdates": "x", "vpaObservedContainers": "app", "vpaInPlaceUpdated": "true", "vpaCpuStartupBoost/app": "{}", "team": "shop"},
		},
		Spec: corev1.PodSpec{
			NodeName: "n1", ServiceAccountName: "web", Containers: []corev1.Container{{Name: "app", Image: "web:1", Resources: asked}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Resources: &running}}},
	}
	var got corev1.Pod
	f := kubetest.NewFakeAPI(t)
	f.Apply(kubetest.PodsPath, encode(t, stored))
	f.Handle(func(w http.ResponseWriter, r *http.Request, q kubetest.Request) bool {
		if q.Verb == http.MethodGet {
			return false
		}
		if q.Verb != http.MethodPost || q.Path != shopPods || r.URL.Query().Get("dryRun") != "All" {
			t.Errorf("request %s %s, want a dry run", r.Method, r.URL)
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		answer := got.DeepCopy()
		answer.Annotations["vpaUpdates"] = "Pod resources updated by web"
		answer.Annotations["vpaCpuStartupBoost/app"] = `{"requests":{"cpu":"100m"},"limits":{}}`
		answer.Spec.Containers[0].Resources.Requests = kube.Quantities(cluster.Amounts(700, 250<<20))
		kubetest.Respond(w, http.StatusCreated, encode(t, answer))
		return true
	})
	core, err := kubernetes.NewForConfig(f.Config())
	if err != nil {
		t.Fatal(err)
	}
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "web-1-0"}, UID: "u7"}
	replacement, err := NewReplacements(&kube.Clients{Core: core}).DryRun(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	want := corev1.Pod{
		TypeMeta: stored.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", GenerateName: "web-1-0-", Labels: stored.Labels, Annotations: map[string]string{"team": "shop"}, OwnerReferences: stored.OwnerReferences,
		},
		Spec: corev1.PodSpec{ServiceAccountName: "web", Containers: []corev1.Container{{Name: "app", Image: "web:1", Resources: sizes(100, 50<<20, 1<<20)}}},
	}
	delete(want.Spec.Containers[0].Resources.Requests, corev1.ResourceMemory)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the created pod differs (-want +got):\n%s", diff)
	}
	wanted := &cluster.Pod{Key: p.Key, Sized: true, Containers: []cluster.Container{{Name: "app", Requests: cluster.Amounts(700, 250<<20), Limits: cluster.Amounts(1<<20, 1<<20), Boosted: new(cluster.Applied)}}}
	if diff := cmp.Diff(wanted, replacement); diff != "" {
		t.Errorf("the replacement differs (-want +got):\n%s", diff)
	}
}

func encode(t *testing.T, o any) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func TestReplacements_dryRunFails_errorIsClassified(t *testing.T) {
	for name, c := range map[string]struct {
		uid   string
		code  int
		reply string
		want  error
	}{
		"pod was replaced":         {uid: "u6", want: kube.ErrNotFound},
		"webhook is not reachable": {code: 500, reply: kubetest.Failure(500, "InternalError", `Internal error occurred: failed calling webhook "vpa.k8s.io": Post "https://a": EOF`), want: kube.ErrWebhook},
		"no permission":            {code: 403, reply: kubetest.Failure(403, "Forbidden", `pods is forbidden: User "x" cannot create resource "pods"`), want: kube.ErrForbidden},
		"over quota":               {code: 403, reply: kubetest.Failure(403, "Forbidden", `pods "x" is forbidden: exceeded quota: q`), want: kube.ErrQuota},
		"no dry runs":              {code: 400, reply: kubetest.Failure(400, "BadRequest", `admission webhook "g" does not support dry run`), want: kube.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			f := kubetest.NewFakeAPI(t)
			f.ApplyPod("shop", "web-1-0", "ReplicaSet", "web-1")
			p := podToActOn()
			if p.UID = c.uid; c.uid == "" {
				p.UID, _ = kubetest.MetaOf(f.Object("/api/v1/pods", "shop/web-1-0"))["uid"].(string)
				f.Reply("POST "+shopPods, c.code, c.reply)
			}
			if _, err := NewReplacements(clientsOf(f)).DryRun(t.Context(), p); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}
