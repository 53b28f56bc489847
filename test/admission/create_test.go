// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/webhook"
)

// A namespaceView is what the webhook knows of the cluster: one autoscaler, and the LimitRanges of its namespace.
type namespaceView struct {
	interner   projection.Interner
	autoscaler *cluster.Autoscaler
	limits     policy.Limits
}

func (n *namespaceView) Project(_ context.Context, p *corev1.Pod) *cluster.Pod {
	out := projection.Pod(p, &n.interner)
	out.Top = out.Controller
	return out
}

func (n *namespaceView) Governing(w cluster.Workload) *cluster.Autoscaler {
	if w != n.autoscaler.Target || !n.autoscaler.ChangesPods(true) {
		return nil
	}
	return n.autoscaler
}

func (n *namespaceView) Limits(string) policy.Limits { return n.limits }

// variable names the environment variable with the number of cases; without it there are few, the same each time.
const variable = "PODFIT_ADMISSION_CASES"

func check(t *testing.T, usual int, property func(*rapid.T)) {
	t.Helper()
	cases, seed := strconv.Itoa(usual), "20260901"
	if v := os.Getenv(variable); v != "" {
		cases, seed = v, "0"
	}
	for name, value := range map[string]string{"rapid.checks": cases, "rapid.seed": seed, "rapid.nofailfile": "true"} {
		setFlag(t, name, value)
	}
	rapid.Check(t, property)
}

// show writes a case for people.
func show(objects ...any) string {
	var out []string
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			panic(err)
		}
		out = append(out, string(text))
	}
	return strings.Join(out, "---\n")
}

// What the API server admits without podfit, it admits with podfit.
func TestCreate_podThatIsAdmittedWithoutPodfit_isAdmittedWithIt(t *testing.T) {
	view := &namespaceView{}
	handler := webhook.NewHandler(view, webhook.Options{Gates: webhook.Gates{CPUStartupBoost: true, InPlace: true}},
		webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &webhookClient{url: server.URL, http: server.Client()}

	var tried, admitted, changed, kept, overQuota int
	check(t, 6000, func(t *rapid.T) {
		d := draw{t}
		pod := d.pod()
		api := &apiServer{limitRanges: d.limitRanges("LimitRanges", 2), quotas: d.quotas()}
		tried++
		without, err := api.create(pod)
		if err != nil {
			return
		}
		admitted++
		view.autoscaler = d.autoscaler(pod)
		view.limits = policy.Limits{Range: projection.LimitRange(api.limitRanges...), Quotas: quotaView(api.quotas)}
		api.webhook = client
		with, err := api.create(pod)
		if err != nil {
			t.Fatalf("refused with podfit only: %v\n%s", err, show(pod, api.limitRanges, api.quotas, view.autoscaler))
		}
		note := with.Annotations[policy.UpdatesAnnotation]
		switch {
		case strings.Contains(note, "ResourceQuota"):
			overQuota++
		case strings.Contains(note, "NOT updated"):
			kept++
		case sizesOf(with) != sizesOf(without):
			changed++
		}
		othersStay(t, without, with)
	})
	t.Logf("%d pods tried, %d admitted without podfit; of those %d sized, %d left as they are, %d because of a quota",
		tried, admitted, changed, kept, overQuota)
	if admitted < tried/4 || changed < admitted/3 || kept > admitted/20 || overQuota < admitted/100 {
		t.Error("these cases show too little")
	}
}

func sizesOf(p *corev1.Pod) string {
	out := []any{p.Spec.Resources}
	for i := range p.Spec.Containers {
		out = append(out, p.Spec.Containers[i].Resources)
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// othersStay fails when podfit has changed anything but CPU and memory of regular containers and of the pod, and annotations.
func othersStay(t *rapid.T, without, with *corev1.Pod) {
	a, b := without.DeepCopy(), with.DeepCopy()
	for _, p := range []*corev1.Pod{a, b} {
		p.Annotations = nil
		p.Status.QOSClass = ""
		drop := func(r *corev1.ResourceRequirements) {
			for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
				delete(list, corev1.ResourceCPU)
				delete(list, corev1.ResourceMemory)
			}
			if len(r.Requests) == 0 {
				r.Requests = nil
			}
			if len(r.Limits) == 0 {
				r.Limits = nil
			}
		}
		for i := range p.Spec.Containers {
			drop(&p.Spec.Containers[i].Resources)
		}
		if p.Spec.Resources != nil {
			drop(p.Spec.Resources)
		}
	}
	if before, after := show(a), show(b); before != after {
		t.Fatalf("podfit changed more than sizes:\n%s\n%s", before, after)
	}
}
