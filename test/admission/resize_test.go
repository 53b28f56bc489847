// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/internal/edge/webhook"
)

// A recorder is an API server that keeps the last patch of a pod.
type recorder struct{ patch []byte }

func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.patch, _ = io.ReadAll(request.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"kind":"Pod","apiVersion":"v1"}`))
}

// running returns a stored pod as it is when the kubelet runs it as its spec says.
func running(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	started := metav1.NewTime(longAgo)
	p.UID, p.ResourceVersion, p.CreationTimestamp = podUID, "1", started
	p.Spec.NodeName = "node-1"
	p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &started
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: started}}
	p.Status.ContainerStatuses = nil
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, Image: c.Image, Resources: c.Resources.DeepCopy(),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
		})
	}
	return p
}

// decide returns what the planner decides for a running pod.
func decide(view *namespaceView, pod *corev1.Pod) plan.Decision {
	p := view.Project(context.Background(), pod)
	budget := plan.DefaultBudget()
	budget.MinReplicas, budget.InPlace, budget.StartupBoost = 1, true, true
	ds := plan.Plan(longAgo.Add(48*time.Hour), plan.World{
		Governed: []plan.Governed{{Autoscaler: view.autoscaler, Pods: []*cluster.Pod{p}}},
		Limits:   map[string]policy.Limits{namespace: view.limits},
		Scales:   map[cluster.Workload]cluster.Scale{target: {Known: true, Replicas: 1}},
	}, budget)
	return ds[0]
}

// What the API server refuses to resize whatever the sizes are. podfit sees the refusal, and evicts where the mode allows it.
func neverResized(p *corev1.Pod) bool {
	if p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows {
		return true
	}
	for i := range p.Spec.Containers {
		if len(p.Spec.Containers[i].Resources.Claims) > 0 { // Kubernetes takes the claims for a change of the resize
			return true
		}
	}
	return false
}

type resizeCase struct {
	t     *rapid.T
	view  *namespaceView
	api   *apiServer
	pod   *corev1.Pod // running
	actor *kube.Actor
	sent  *recorder
	freed []corev1.ResourceQuota // once the pod is gone
}

func (c *resizeCase) show() string {
	return show(c.pod, c.api.limitRanges, c.api.quotas, c.view.autoscaler)
}

// resize does to the running pod what a decision says.
func (c *resizeCase) resize(d plan.Decision) (*corev1.Pod, error) {
	c.sent.patch = nil
	if err := c.actor.Resize(context.Background(), d.Pod, d.With); err != nil {
		c.t.Fatal(err)
	}
	if c.sent.patch == nil {
		return c.pod, nil
	}
	return c.api.resize(c.pod, c.sent.patch)
}

// What the planner proposes for a running pod the API server accepts, and then it leaves the pod alone; what it does not
// propose because the API server would refuse it is refused.
func TestResize_whatThePlannerProposes_isAcceptedAndEnds(t *testing.T) {
	view := &namespaceView{}
	sent := &recorder{}
	server := httptest.NewServer(sent)
	defer server.Close()
	core, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	actor := kube.NewActor(&kube.Clients{Core: core})
	handler := webhook.NewHandler(view, webhook.Options{Gates: webhook.Gates{InPlace: true}},
		webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	hook := httptest.NewServer(handler)
	defer hook.Close()
	client := &webhookClient{url: hook.URL, http: hook.Client()}

	why := map[string]int{}
	tried := 0
	check(t, 4000, func(t *rapid.T) {
		d := draw{t}
		template := d.pod()
		api := &apiServer{limitRanges: d.limitRanges("LimitRanges", 2), quotas: d.quotas()}
		tried++
		before := api.quotas
		stored, err := api.create(template)
		if err != nil {
			return
		}
		api.quotas = api.charged
		if d.oneIn(3, "other LimitRanges") {
			// One: of several defaults the API server takes any.
			api.limitRanges = d.limitRanges("later LimitRanges", 1)
		}
		view.autoscaler = d.autoscaler(template)
		view.autoscaler.Boost = nil
		view.limits = policy.Limits{Range: projection.LimitRange(api.limitRanges...), Quotas: quotaView(api.quotas)}
		c := &resizeCase{t: t, view: view, api: api, pod: running(stored), actor: actor, sent: sent, freed: before}

		decision := decide(view, c.pod)
		reason := decision.Do.String() + " " + decision.Reason.Code.String()
		switch {
		case decision.Do == plan.Resize:
			reason = c.resized(decision)
		case decision.Do == plan.Evict:
			reason = c.evicted(template, client)
		case decision.Reason.Code == plan.OverQuota && view.autoscaler.Mode.Resizes() && !neverResized(c.pod) && len(api.quotas) > 0:
			if _, err := c.resize(decision); err == nil && !c.scoped() && !decision.Pod.Fractions {
				t.Fatalf("left because %s, but it is not refused\n%s", decision.Reason, c.show())
			}
		case decision.Reason.Code == plan.ReplacementRefused && !neverResized(c.pod):
			if _, err := c.resize(decision); err == nil {
				if !strings.Contains(decision.Reason.Text, "rounded") {
					t.Fatalf("left because %s, but it is not refused\n%s", decision.Reason, c.show())
				}
				reason = "leave because of rounding"
			}
		}
		why[reason]++
	})
	t.Logf("%d pods tried: %v", tried, why)
	if why["resize"] < tried/20 || why["evict"] < tried/50 || why["leave ReplacementRefused"] == 0 || why["leave OverQuota"] == 0 || why["evict, and wait for the quota"] == 0 {
		t.Error("these cases show too little")
	}
}

// scoped reports whether a quota goes by what podfit does not keep of a pod.
func (c *resizeCase) scoped() bool {
	return slices.ContainsFunc(c.api.quotas, func(q corev1.ResourceQuota) bool {
		return q.Spec.ScopeSelector != nil || len(q.Spec.Scopes) > 0
	})
}

// rounds is how often a pod may be resized until it is left alone: what is rounded may be rounded again.
const rounds = 3

func (c *resizeCase) resized(d plan.Decision) string {
	for range rounds {
		after, err := c.resize(d)
		switch {
		case err != nil && neverResized(c.pod):
			return "resize of what is never resized"
		case err != nil:
			c.t.Fatalf("resize is refused: %v\npatch %s\n%s", err, c.sent.patch, c.show())
		}
		c.pod = running(after)
		c.api.quotas = c.api.charged
		c.view.limits.Quotas = quotaView(c.api.quotas)
		if c.drifts(d) {
			return "resize"
		}
		if d = decide(c.view, c.pod); d.Do != plan.Resize {
			return "resize"
		}
	}
	c.t.Fatalf("resized again and again: %s\n%s", d.Reason, c.show())
	return ""
}

// drifts reports whether podfit sizes as upstream does by what the pod has now, so that the next resize differs: a container
// without recommendation is scaled into the pod LimitRange by its own request, and LimitRanges hold a request by its proportion
// to the limit, even where the limit is left alone or bounded by that of the pod. Each resize is smaller than the one before.
func (c *resizeCase) drifts(d plan.Decision) bool {
	inserted := func(f policy.Fitted) bool { return f.Inserted }
	kept := func(f policy.Fitted) bool { return f.LimitsKept }
	proportion := slices.ContainsFunc(d.With, kept) || d.Pod.PodLevel != nil
	return slices.ContainsFunc(d.With, inserted) || !c.view.limits.Range.IsZero() && proportion
}

// evicted looks at what replaces an evicted pod: the template, with the sizes that the webhook gives it.
func (c *resizeCase) evicted(template *corev1.Pod, client *webhookClient) string {
	_, err := c.api.create(template)
	refusedWithout := err != nil
	c.api.webhook = client
	defer func() { c.api.webhook = nil }()
	after, err := c.api.create(template)
	outcome := "evict"
	if refusedWithout && err != nil && strings.Contains(err.Error(), "ResourceQuota: ") {
		// The controller tries again when the evicted pod does not count any more.
		c.api.quotas = c.freed
		c.view.limits.Quotas = quotaView(c.freed)
		after, err = c.api.create(template)
		if err != nil {
			c.api.webhook = nil
			if _, own := c.api.create(template); own != nil { // a LimitRange with defaults is gone: nothing would be admitted
				return "evict whose template is refused too"
			}
			c.t.Fatalf("the replacement is refused for good: %v\n%s", err, c.show())
		}
		outcome = "evict, and wait for the quota"
	}
	switch {
	case err != nil && refusedWithout:
		return "evict whose template is refused too"
	case err != nil:
		c.t.Fatalf("the replacement is refused: %v\n%s", err, c.show())
	case strings.Contains(after.Annotations[policy.UpdatesAnnotation], "ResourceQuota"):
		c.t.Fatalf("the replacement comes back with its own size: %s\n%s", after.Annotations[policy.UpdatesAnnotation], c.show())
	}
	return outcome
}
