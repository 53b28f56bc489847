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
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/plan"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/actuation"
	"podfit.dev/podfit/internal/edge/webhook"
)

// recorder is an API server that stores the last patch of a pod.
type recorder struct{ patch []byte }

func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.patch, _ = io.ReadAll(request.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"kind":"Pod","apiVersion":"v1"}`))
}

// running returns the stored pod in the state in which the kubelet runs it, with the resources of its spec.
func running(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	started := metav1.NewTime(longAgo)
	p.UID = podUID
	p.ResourceVersion = "1"
	p.CreationTimestamp = started
	p.Spec.NodeName = "node-1"
	p.Status.Phase = corev1.PodRunning
	p.Status.StartTime = &started
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

// decide returns the decision of the plan about a running pod.
func decide(view *namespaceView, pod *corev1.Pod) decision.Decision {
	p := view.Project(context.Background(), pod)
	budget := plan.DefaultBudget()
	budget.MinReplicas = 1
	budget.InPlace = true
	budget.StartupBoost = true
	ds := plan.Plan(longAgo.Add(48*time.Hour), plan.World{
		Governed: []cluster.Governed{{Autoscaler: view.autoscaler, Pods: []*cluster.Pod{p}}},
		Limits:   map[string]policy.Limits{namespace: view.limits},
		Scales:   map[cluster.Workload]cluster.Scale{target: {Known: true, Replicas: 1}},
	}, budget)
	return ds[0]
}

// neverResized reports whether the API server rejects each resize of the pod, whatever the sizes are. podfit gets the error, and evicts the
// pod if the mode allows it.
func neverResized(p *corev1.Pod) bool {
	if p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows {
		return true
	}
	for i := range p.Spec.Containers {
		if len(p.Spec.Containers[i].Resources.Claims) > 0 { // Kubernetes mistakes the claims for a change by the resize
			return true
		}
	}
	return false
}

// resizeCase is one case of TestResize_randomPods_planAgreesWithTheAPIServer.
type resizeCase struct {
	t     *rapid.T
	view  *namespaceView
	api   *apiServer
	pod   *corev1.Pod // running
	actor *actuation.PodWriter
	sent  *recorder
	freed []corev1.ResourceQuota // quotas after the pod is deleted
}

func (c *resizeCase) show() string {
	return show(c.pod, c.api.limitRanges, c.api.quotas, c.view.autoscaler)
}

// resize resizes the running pod as the decision requires.
func (c *resizeCase) resize(d decision.Decision) (*corev1.Pod, error) {
	c.sent.patch = nil
	if err := c.actor.Resize(context.Background(), d.Pod, d.With); err != nil {
		c.t.Fatal(err)
	}
	if c.sent.patch == nil {
		return c.pod, nil
	}
	return c.api.resize(c.pod, c.sent.patch)
}

// The API server must accept the resizes and replacements that the plan decides, and the plan must then not change the pod again. If the
// plan does not change a pod because the API server would reject it, the API server must reject it.
func TestResize_randomPods_planAgreesWithTheAPIServer(t *testing.T) {
	view := &namespaceView{}
	sent := &recorder{}
	server := httptest.NewServer(sent)
	defer server.Close()
	core, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	actor := actuation.NewPodWriter(&kube.Clients{Core: core})
	handler := webhook.NewHandler(view, webhook.Options{Gates: webhook.Gates{InPlace: true}},
		webhook.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	hook := httptest.NewServer(handler)
	defer hook.Close()
	client := &webhookClient{url: hook.URL, http: hook.Client()}

	outcomes := map[string]int{}
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
			// At most one LimitRange: of several defaults, the API server uses any.
			api.limitRanges = d.limitRanges("later LimitRanges", 1)
		}
		view.autoscaler = d.autoscaler(template)
		view.autoscaler.Boost = nil
		view.limits = policy.Limits{Range: limitView(api.limitRanges...), Quotas: quotaView(api.quotas)}
		c := &resizeCase{t: t, view: view, api: api, pod: running(stored), actor: actor, sent: sent, freed: before}

		chosen := decide(view, c.pod)
		reason := chosen.Do.String() + " " + chosen.Reason.Code.String()
		switch {
		case chosen.Do == decision.Resize:
			reason = c.resized(chosen)
		case chosen.Do == decision.Evict:
			reason = c.evicted(template, client)
		case chosen.Reason.Code == decision.OverQuota && view.autoscaler.Mode.Resizes() && !neverResized(c.pod) && len(api.quotas) > 0:
			if _, err := c.resize(chosen); err == nil && !c.scoped() && !chosen.Pod.Fractions {
				t.Fatalf("not changed because %s, but the API server accepts the resize\n%s", chosen.Reason, c.show())
			}
		case chosen.Reason.Code == decision.ReplacementRefused && !neverResized(c.pod):
			if _, err := c.resize(chosen); err == nil {
				if !strings.Contains(chosen.Reason.Text, "rounded") {
					t.Fatalf("not changed because %s, but the API server accepts the resize\n%s", chosen.Reason, c.show())
				}
				reason = "leave because of rounding"
			}
		}
		outcomes[reason]++
	})
	t.Logf("%d pods: %v", tried, outcomes)
	if outcomes["resize"] < tried/20 || outcomes["evict"] < tried/50 || outcomes["leave ReplacementRefused"] == 0 || outcomes["leave OverQuota"] == 0 || outcomes["evict, and wait for the quota"] == 0 {
		t.Error("the cases do not cover enough outcomes")
	}
}

// scoped reports whether a quota has scopes, which may depend on fields of a pod that podfit does not keep.
func (c *resizeCase) scoped() bool {
	return slices.ContainsFunc(c.api.quotas, func(q corev1.ResourceQuota) bool {
		return q.Spec.ScopeSelector != nil || len(q.Spec.Scopes) > 0
	})
}

// maxResizes is the number of consecutive resizes after which the plan must not change the pod again. More than one may be necessary,
// because amounts are rounded.
const maxResizes = 3

// resized executes a resize and those that follow it, and returns the outcome.
func (c *resizeCase) resized(d decision.Decision) string {
	for range maxResizes {
		after, err := c.resize(d)
		switch {
		case err != nil && neverResized(c.pod):
			return "resize of a pod that cannot be resized"
		case err != nil:
			c.t.Fatalf("the resize is rejected: %v\npatch %s\n%s", err, c.sent.patch, c.show())
		}
		c.pod = running(after)
		c.api.quotas = c.api.charged
		c.view.limits.Quotas = quotaView(c.api.quotas)
		if c.drifts(d) {
			return "resize"
		}
		if d = decide(c.view, c.pod); d.Do != decision.Resize {
			return "resize"
		}
	}
	c.t.Fatalf("the pod is still resized after %d resizes: %s\n%s", maxResizes, d.Reason, c.show())
	return ""
}

// drifts reports whether the new size depends on the current size, as with upstream, so that the next resize may differ. A container
// without a recommendation is scaled into the pod LimitRange by its own request. LimitRanges bound a request by its ratio to the limit,
// even if the limit is not changed or is bounded by that of the pod. Each resize is smaller than the one before.
func (c *resizeCase) drifts(d decision.Decision) bool {
	inserted := func(f policy.Fitted) bool { return f.Inserted }
	kept := func(f policy.Fitted) bool { return f.LimitsKept }
	proportion := slices.ContainsFunc(d.With, kept) || d.Pod.PodLevel != nil
	return slices.ContainsFunc(d.With, inserted) || c.view.limits.Range != (cluster.LimitRange{}) && proportion
}

// evicted creates the replacement of an evicted pod, the template with the sizes that the webhook sets, and returns the outcome.
func (c *resizeCase) evicted(template *corev1.Pod, client *webhookClient) string {
	_, err := c.api.create(template)
	rejectedWithout := err != nil
	c.api.webhook = client
	defer func() { c.api.webhook = nil }()
	after, err := c.api.create(template)
	outcome := "evict"
	if rejectedWithout && err != nil && strings.Contains(err.Error(), "ResourceQuota: ") {
		// The controller tries again after the evicted pod no longer counts towards the quota.
		c.api.quotas = c.freed
		c.view.limits.Quotas = quotaView(c.freed)
		after, err = c.api.create(template)
		if err != nil {
			c.api.webhook = nil
			if _, own := c.api.create(template); own != nil { // without a LimitRange with defaults, the template is not admitted
				return "evict, and the template is rejected, too"
			}
			c.t.Fatalf("the replacement is always rejected: %v\n%s", err, c.show())
		}
		outcome = "evict, and wait for the quota"
	}
	switch {
	case err != nil && rejectedWithout:
		return "evict, and the template is rejected, too"
	case err != nil:
		c.t.Fatalf("the replacement is rejected: %v\n%s", err, c.show())
	case strings.HasPrefix(after.Annotations[policy.UpdatesAnnotation], "Pod resources NOT updated") &&
		strings.Contains(after.Annotations[policy.UpdatesAnnotation], "ResourceQuota"):
		c.t.Fatalf("the replacement is not resized: %s\n%s", after.Annotations[policy.UpdatesAnnotation], c.show())
	}
	return outcome
}
