// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
)

// attempts returns the number of requests of the updater for a subresource of a pod.
func (p *place) attempts(pod, subresource string) (n int) {
	p.Helper()
	log, err := p.witness.Log(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	for _, w := range log.Writes {
		if w.Namespace == p.ns && w.Name == pod && w.Resource == "pods" && w.Subresource == subresource && strings.HasPrefix(w.User, "vpa-updater") {
			n++
		}
	}
	return n
}

// mark sets a label of a pod.
func (p *place) mark(pod, label string) {
	p.Helper()
	name, value, _ := strings.Cut(label, "=")
	patch := fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, name, value)
	if _, err := p.CoreV1().Pods(p.ns).Patch(p.Context(), pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
}

// sizedExcept checks that the pods of an app have the wanted size, except for one pod.
func (p *place) sizedExcept(app, spared, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := p.pods(ctx, app)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if pod.Name != spared && (requests(pod) != want || !ready(&pod)) {
				return fmt.Errorf("pod %s has %q, want %q, ready %v", pod.Name, requests(pod), want, ready(&pod))
			}
		}
		if len(pods) != 3 {
			return fmt.Errorf("there are %d pods, want 3", len(pods))
		}
		return nil
	}
}

// eventOf checks that the updater has written an event with one of the reasons in the namespace.
func (p *place) eventOf(reasons ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		l, err := p.CoreV1().Events(p.ns).List(ctx, metav1.ListOptions{FieldSelector: "source=vpa-updater"})
		if err != nil {
			return err
		}
		var have []string
		for _, e := range l.Items {
			if slices.Contains(reasons, e.Reason) {
				return nil
			}
			have = append(have, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("no event of %v among %q", reasons, have)
	}
}

// primaryProtected has a PodDisruptionBudget that protects one of three pods, as operators of databases create it. The other
// pods are updated.
func primaryProtected(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("db")
	w.Kind, w.Replicas = "StatefulSet", 3
	p.apply(w.manifest(), "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: primary}\n"+
		"spec: {minAvailable: 1, selector: {matchLabels: {role: primary}}}\n")
	old := p.start("db", 3)
	p.mark("db-0", "role=primary")
	p.eventually("the budget counts the primary", 30*time.Second, func(ctx context.Context) error {
		b, err := p.PolicyV1().PodDisruptionBudgets(p.ns).Get(ctx, "primary", metav1.GetOptions{})
		if err == nil && (b.Status.CurrentHealthy != 1 || b.Status.DesiredHealthy != 1) {
			err = fmt.Errorf("the PodDisruptionBudget has the status %+v", b.Status)
		}
		return err
	})
	p.apply(w.autoscaler("Recreate"))
	p.eventually("the replicas are sized", measured+2*resized, p.sizedExcept("db", "db-0", steadyTarget))
	primary, err := p.CoreV1().Pods(p.ns).Get(t.Context(), "db-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if primary.UID != old[0].UID {
		t.Error("the primary was replaced")
	}
	if n := p.attempts("db-0", "eviction"); n > 8 {
		t.Errorf("%d attempts to update the primary", n)
	}
}

// denied returns an admission policy that denies an operation on pods or a subresource in a namespace.
func denied(name, operation, resource, ns, expression string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[4]s}}
    resourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [%[2]s], resources: [%[3]s]}]
  validations: [{expression: '%[5]s', message: denied by the test}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, name, operation, resource, ns, expression)
}

// applyGlobal applies cluster-scoped objects, and deletes them when the test ends.
func (p *place) applyGlobal(manifest string) {
	p.Helper()
	objects, err := bed.Parse([]byte(manifest))
	if err != nil {
		p.Fatal(err)
	}
	p.apply(manifest)
	p.Cleanup(func() {
		for _, o := range objects {
			if err := p.Delete(context.Background(), o); err != nil {
				p.Error(err)
			}
		}
	})
}

// denies waits until a policy or a webhook is in effect.
func (p *place) denies(try func(ctx context.Context) error) {
	p.Helper()
	p.eventually("the request is denied", 30*time.Second, func(ctx context.Context) error {
		if try(ctx) == nil {
			return errors.New("the request is not denied yet")
		}
		return nil
	})
}

// tryResize resizes a pod in a dry run.
func (p *place) tryResize(pod string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := p.CoreV1().Pods(p.ns).Patch(ctx, pod, types.StrategicMergePatchType,
			[]byte(`{"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "101m"}}}]}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "resize")
		return err
	}
}

// resizeDeniedByPolicy has an admission policy that denies resizes with HTTP 422.
func resizeDeniedByPolicy(t *testing.T, name string) {
	p := newPlace(t, name)
	p.resizeDenied(denied(name, "UPDATE", "pods/resize", p.ns, "false"))
}

// resizeDeniedByWebhook has a webhook that denies resizes without a reason, which is HTTP 400.
func resizeDeniedByWebhook(t *testing.T, name string) {
	p := newPlace(t, name)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "not a review", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review) // on an error the API server gets no answer, and denies, too
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	p.resizeDenied(resizeWebhook(name, p.ns, server.URL, ca, "{}"))
}

// resizeDenied checks that pods are evicted when their resize is denied, as upstream does.
func (p *place) resizeDenied(by string) {
	p.Helper()
	w := steady("steady")
	p.apply(w.manifest())
	old := p.start("steady", 2)
	p.applyGlobal(by)
	p.denies(p.tryResize(old[0].Name))
	p.apply(w.autoscaler("InPlaceOrRecreate"))
	p.eventually("the pods are replaced", measured+2*resized, p.sized("steady", 2, steadyTarget))
	if err := p.same("steady", old)(p.Context()); err == nil {
		p.Error("the pods were resized in place although that is denied")
	}
}

// resizeWebhook returns a validating webhook for resizes of the pods of a namespace with the given labels.
func resizeWebhook(name, ns, url string, ca []byte, labels string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: resize.test.podfit.dev
  clientConfig: {url: "%[3]s/", caBundle: "%[4]s"}
  failurePolicy: Fail
  sideEffects: None
  timeoutSeconds: 2
  admissionReviewVersions: [v1]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}
  objectSelector: {matchLabels: %[5]s}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods/resize]}]
`, name, ns, url, base64.StdEncoding.EncodeToString(ca), labels)
}

// resizeWebhookFails has a webhook that is not reachable for resizes of one of three pods. The others are resized in place;
// that one is evicted, or an event says that it is not updated.
func resizeWebhookFails(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	w.Kind, w.Replicas = "StatefulSet", 3
	p.apply(w.manifest())
	old := p.start("steady", 3)
	p.mark("steady-0", "guarded=true")
	port, err := bed.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	p.applyGlobal(resizeWebhook(name, p.ns, fmt.Sprintf("https://127.0.0.1:%d", port), nil, `{guarded: "true"}`))
	p.denies(p.tryResize("steady-0"))
	p.apply(w.autoscaler("InPlaceOrRecreate"))
	p.eventually("the others are resized", measured+resized, p.sizedExcept("steady", "steady-0", steadyTarget))
	now, err := p.pods(t.Context(), "steady")
	if err != nil {
		t.Fatal(err)
	}
	for _, was := range old[1:] {
		if !slices.Contains(uids(now), was.UID) {
			t.Errorf("%s was replaced", was.Name)
		}
	}
	p.eventually("the guarded pod is replaced, or an event is written", resized, func(ctx context.Context) error {
		if p.sized("steady", 3, steadyTarget)(ctx) == nil {
			return nil
		}
		return p.eventOf("UpdateHeld")(ctx)
	})
	if n := p.attempts("steady-0", "resize"); n > 8 {
		t.Errorf("there were %d attempts on the guarded pod", n)
	}
}

// evictionDenied has an admission policy that denies the eviction of one of three pods. The others are replaced.
func evictionDenied(t *testing.T, name string) {
	p := newPlace(t, name)
	w := steady("steady")
	w.Kind, w.Replicas = "StatefulSet", 3
	p.apply(w.manifest())
	old := p.start("steady", 3)
	p.applyGlobal(denied(name, "CREATE", "pods/eviction", p.ns, `object.metadata.name != "steady-0"`))
	p.denies(func(ctx context.Context) error {
		return p.CoreV1().Pods(p.ns).EvictV1(ctx, eviction(p.ns, "steady-0", metav1.DryRunAll))
	})
	p.apply(w.autoscaler("Recreate"))
	p.eventually("the others are replaced", measured+2*resized, p.sizedExcept("steady", "steady-0", steadyTarget))
	now, err := p.pods(t.Context(), "steady")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(uids(now), old[0].UID) {
		t.Error("the guarded pod was replaced")
	}
	if n := p.attempts("steady-0", "eviction"); n > 8 {
		t.Errorf("there were %d attempts on the guarded pod", n)
	}
}

// quota is enough for three pods that request 100m CPU and 50Mi memory.
const quota = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: full}, spec: {hard: {requests.cpu: 300m, requests.memory: 150Mi}}}"

// quotaInPlace has a ResourceQuota that is used up, so that resizes are refused. No pod is evicted for it.
func quotaInPlace(t *testing.T, name string) {
	p := newPlace(t, name)
	old := p.inQuota("InPlaceOrRecreate")
	p.eventually("an event is written", resized, p.eventOf("UpdateHeld"))
	p.always("no pod is lost", 20*time.Second, p.same("steady", old))
}

// quotaRecreate has the same quota in mode Recreate. The replacement of an evicted pod would not be created, or would not have the new
// size, so no pod is evicted, and an event says why. When there is room, the pods are replaced.
func quotaRecreate(t *testing.T, name string) {
	p := newPlace(t, name)
	old := p.inQuota("Recreate")
	p.eventually("an event is written", resized, p.eventOf("UpdateHeld"))
	p.always("no pod is lost", 20*time.Second, p.same("steady", old))
	p.apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: full}, spec: {hard: {requests.cpu: '2', requests.memory: 2Gi}}}")
	p.eventually("the pods are replaced when the quota has room", measured+2*resized, p.sized("steady", 3, steadyTarget))
}

// inQuota starts a workload that uses up a quota, and waits for its recommendation.
func (p *place) inQuota(mode string) []corev1.Pod {
	p.Helper()
	w := steady("steady")
	w.Replicas = 3
	p.apply(quota, w.manifest(), w.autoscaler(mode))
	old := p.start("steady", 3)
	p.eventually("the target is upstream's", measured, p.recommended("steady", steadyTarget))
	return old
}

// looping is a workload whose memory grows until its containers are OOM-killed. With the recommended memory they are not.
func looping(name string, replicas int) spec {
	return spec{Name: name, Replicas: replicas, Memory: "ramp(40Mi, 300Mi, 5s)", Requests: "{cpu: 100m, memory: 64Mi}", Limits: "{memory: 128Mi}"}
}

// oomLoops has pods that are OOM-killed repeatedly. Two replicas cannot be evicted, because a PodDisruptionBudget requires both, and
// they are deleted, one after the other. A single replica is evicted although --min-replicas is higher, or resized in place. A pod with data
// on its node is not deleted, and an event says so. An emptyDir is no reason, because each eviction loses it. A StatefulSet
// creates no pod while one with a lower ordinal is not ready: its pods must not wait for each other for ever.
func oomLoops(t *testing.T, name string) {
	p := newPlace(t, name)
	pair, single, inPlace, data := looping("pair", 2), looping("single", 1), looping("in-place", 1), looping("data", 2)
	with := func(w spec, volume string) string {
		return strings.Replace(w.manifest(), "containers:", "volumes: [{name: data, "+volume+"}]\n      containers:", 1)
	}
	p.apply(with(data, "hostPath: {path: /var/lib/data}"), budget("data", "minAvailable: 2"), data.autoscaler("Recreate"))
	p.apply(with(pair, "emptyDir: {}"), budget("pair", "minAvailable: 2"), pair.autoscaler("Recreate"),
		single.manifest(), single.autoscaler("Recreate"), inPlace.manifest(), inPlace.autoscaler("InPlaceOrRecreate"))
	ordered := looping("ordered", 3)
	ordered.Kind = "StatefulSet"
	p.apply(strings.Replace(ordered.manifest(), "podManagementPolicy: Parallel", "podManagementPolicy: OrderedReady", 1), ordered.autoscaler("Recreate"))
	uid := ""
	p.eventually("a pod exists", measured, func(ctx context.Context) error {
		pods, err := p.pods(ctx, "in-place")
		if err != nil || len(pods) != 1 {
			return fmt.Errorf("%d pods: %w", len(pods), err)
		}
		uid = string(pods[0].UID)
		return nil
	})
	for _, w := range []spec{inPlace, single, pair, ordered} {
		p.eventually(w.Name+" has enough memory and is ready", measured+2*resized, p.enoughMemory(w))
	}
	pods, err := p.pods(t.Context(), "in-place")
	if err != nil {
		t.Fatal(err)
	}
	if string(pods[0].UID) != uid {
		t.Error("the pod in mode InPlaceOrRecreate was replaced, want a resize")
	}
	p.eventually("an event is written", resized, p.eventOf("OOMRescue"))
	for name, want := range map[string]string{"pair": "Deleted", "single": "Evicted", "in-place": "Resized", "data": "DataWouldBeLost"} {
		p.eventually("the condition OOMRescue of "+name+" has the reason "+want, resized, func(ctx context.Context) error {
			c, err := p.condition(ctx, name, oomRescue)
			if err == nil && c.Reason != want {
				err = fmt.Errorf("the condition is %+v", c)
			}
			return err
		})
	}
	p.eventually("a condition says that the pods with data are killed", resized, func(ctx context.Context) error {
		c, err := p.condition(ctx, "data", oomKillLoop)
		if err == nil && (c.Status != corev1.ConditionTrue || c.Message == "") {
			err = fmt.Errorf("the condition is %+v", c)
		}
		return err
	})
	p.eventually("an event says why they are not deleted", resized, func(ctx context.Context) error {
		l, err := p.CoreV1().Events(p.ns).List(ctx, metav1.ListOptions{FieldSelector: "reason=UpdateHeld,involvedObject.name=data"})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(l.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, "volume with data") }) {
			return fmt.Errorf("%d other events", len(l.Items))
		}
		return nil
	})
}

// enoughMemory returns a check that all pods of a looping workload are ready, and have run for longer than the others do.
func (p *place) enoughMemory(w spec) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := p.running(ctx, w.Name, w.Replicas)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			c := pod.Status.ContainerStatuses[0]
			if c.State.Running == nil || time.Since(c.State.Running.StartedAt.Time) < 15*time.Second {
				return fmt.Errorf("%s: %s, restarted %d times", pod.Name, requests(pod), c.RestartCount)
			}
		}
		return nil
	}
}

// Two condition types.
const (
	oomKillLoop vpav1.VerticalPodAutoscalerConditionType = "OOMKillLoop"
	oomRescue   vpav1.VerticalPodAutoscalerConditionType = "OOMRescue"
)

// replacementMayNotFit has an updater with --replacement-must-fit=false. As upstream's updater, it evicts pods whose
// replacements fit no node, until pods are pending, also when a resize is infeasible.
func replacementMayNotFit(t *testing.T, name string) {
	p := newPlace(t, name) // the shared updater ignores this namespace
	u, err := p.healthy(t.Context(), bed.Updater().Named("updater-without-room").With("--updater-interval=5s",
		"--replacement-must-fit=false", "--vpa-object-namespace="+p.ns))
	if err != nil {
		t.Fatal(err)
	}
	p.endsWithTest(u)
	const huge = `  resourcePolicy: {containerPolicies: [{containerName: app, minAllowed: {cpu: "17"}}]}`
	replaced, fallback := steady("replaced"), steady("fallback")
	replaced.Replicas, fallback.Replicas = 4, 4
	p.apply(replaced.manifest(), fallback.manifest())
	for _, w := range []spec{replaced, fallback} {
		p.start(w.Name, 4) // before there is advice: a pod that has not started yet may be replaced at once
	}
	p.apply(autoscaler("replaced", "", "replaced", "Recreate", huge), autoscaler("fallback", "", "fallback", "InPlaceOrRecreate", huge))
	for _, w := range []spec{replaced, fallback} {
		p.eventually("pods of "+w.Name+" are pending", measured+resized, func(ctx context.Context) error {
			pods, err := p.pods(ctx, w.Name)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
				return pod.Spec.NodeName == "" && requests(pod) == "app cpu=17 memory=262144k"
			}) {
				return fmt.Errorf("none of %d pods is", len(pods))
			}
			return nil
		})
	}
	p.always("half of the pods stay ready", 20*time.Second, func(ctx context.Context) error {
		for _, w := range []spec{replaced, fallback} {
			pods, err := p.pods(ctx, w.Name)
			if err != nil {
				return err
			}
			n := 0
			for _, pod := range pods {
				if ready(&pod) {
					n++
				}
			}
			if n < 2 {
				return fmt.Errorf("only %d pods of %s are ready", n, w.Name)
			}
		}
		return nil
	})
}
