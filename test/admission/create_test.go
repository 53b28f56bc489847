// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
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

// namespaceView is the part of the cluster that the webhook reads: one autoscaler, and the LimitRanges and quotas of its namespace.
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

// variable is the name of the environment variable that sets the number of cases. Without it, there are few cases, and they are the same in
// each run.
const variable = "PODFIT_ADMISSION_CASES"

// check runs a property test with the default number of cases, or with the number in the environment variable.
func check(t *testing.T, defaultCases int, property func(*rapid.T)) {
	t.Helper()
	cases := strconv.Itoa(defaultCases)
	seed := "20260901"
	if v := os.Getenv(variable); v != "" {
		cases = v
		seed = "0"
	}
	for name, value := range map[string]string{"rapid.checks": cases, "rapid.seed": seed, "rapid.nofailfile": "true"} {
		setFlag(t, name, value)
	}
	rapid.Check(t, property)
}

// show returns the objects of a case as YAML.
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

// The API server must admit each pod with podfit that it admits without podfit.
func TestCreate_podAdmittedWithoutPodfit_isAdmittedWithPodfit(t *testing.T) {
	view := &namespaceView{}
	handler := webhook.NewHandler(view, webhook.Options{Gates: webhook.Gates{CPUStartupBoost: true, InPlace: true}},
		webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &webhookClient{url: server.URL, http: server.Client()}

	var tried, admitted, changed, kept, overQuota, unlimited int
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
		view.limits = policy.Limits{Range: limitView(api.limitRanges...), Quotas: quotaView(api.quotas)}
		api.webhook = client
		with, err := api.create(pod)
		if err != nil {
			t.Fatalf("rejected only with podfit: %v\n%s", err, show(pod, api.limitRanges, api.quotas, view.autoscaler))
		}
		note := with.Annotations[policy.UpdatesAnnotation]
		if hasCPULimit(without) && !hasCPULimit(with) {
			unlimited++
			if !view.autoscaler.CPULimits.Remove {
				t.Fatalf("the CPU limits were removed without the rule\n%s", show(pod, view.autoscaler))
			}
		}
		switch {
		case strings.Contains(note, "ResourceQuota"):
			overQuota++
		case strings.Contains(note, "NOT updated"):
			kept++
		case sizesOf(with) != sizesOf(without):
			changed++
		}
		checkOtherFields(t, without, with)
	})
	t.Logf("%d pods, %d of them admitted without podfit; of these, podfit changed the size of %d, removed all CPU limits of %d, and did not change %d and, because of a quota, %d",
		tried, admitted, changed, unlimited, kept, overQuota)
	if unlimited < admitted/50 {
		t.Error("the cases do not remove enough CPU limits")
	}
	if admitted < tried/4 || changed < admitted/3 || kept > admitted/20 || overQuota < admitted/100 {
		t.Error("the cases do not cover enough outcomes")
	}
}

func hasCPULimit(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		_, limited := c.Resources.Limits[corev1.ResourceCPU]
		return limited
	})
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

// checkOtherFields fails the test if podfit changed more than annotations, and CPU and memory of containers, sidecars and the pod.
func checkOtherFields(t *rapid.T, without, with *corev1.Pod) {
	a := without.DeepCopy()
	b := with.DeepCopy()
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
		for i := range p.Spec.InitContainers {
			if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil {
				drop(&c.Resources)
			}
		}
		if p.Spec.Resources != nil {
			drop(p.Spec.Resources)
		}
	}
	if before, after := show(a), show(b); before != after {
		t.Fatalf("podfit changed other fields:\n%s\n%s", before, after)
	}
}
