// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	admissioncontroller "podfit.dev/podfit/internal/app/admission"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
)

// These are the situations of upstream's end-to-end cases about the admission controller: new pods, which are rows of three tables, an update of a pod,
// VPA objects, and a change of certificate files. The rows about the modes Off and Initial are what the webhook does in cases whose other part is a test
// of the updater. With each value of --compatibility, the outcome of all of them is upstream's. test/contract has the list of all cases of upstream.

// An upstreamCase is the situation of a new pod.
type upstreamCase struct {
	name   string
	mode   cluster.Mode
	pod    []string            // "cpu memory" or "cpu/limit memory/limit" of each container; "" means that it has no resources
	advice map[string][2]int64 // millicores and MiB, by container; containers are named c0, c1 and so on
	vpa    func(*cluster.Autoscaler)
	limits []corev1.LimitRangeItem
	want   []string // as pod
}

// most returns a LimitRange with maxima, and least one with minima.
func most(kind corev1.LimitType, cpu, memory string) []corev1.LimitRangeItem {
	return []corev1.LimitRangeItem{{Type: kind, Max: resources(cpu, memory)}}
}

func least(kind corev1.LimitType, cpu, memory string) []corev1.LimitRangeItem {
	return []corev1.LimitRangeItem{{Type: kind, Min: resources(cpu, memory)}}
}

// resources returns amounts; "" means none.
func resources(cpu, memory string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, amount := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if amount != "" {
			out[name] = resource.MustParse(amount)
		}
	}
	return out
}

// one is a recommendation of 250m and 200Mi for the only container.
var one = map[string][2]int64{"c0": {250, 200}}

// policyOf gives the only container a policy.
func policyOf(p cluster.ContainerPolicy) func(*cluster.Autoscaler) {
	p.Container = "c0"
	return func(a *cluster.Autoscaler) { a.Policies = []cluster.ContainerPolicy{p} }
}

// boosted gives all containers a startup boost.
func boosted(b cluster.Boost, change func(*cluster.Autoscaler)) func(*cluster.Autoscaler) {
	return func(a *cluster.Autoscaler) {
		a.Boost = &b
		if change != nil {
			change(a)
		}
	}
}

// recommendationCases are cases without LimitRanges and boosts.
func recommendationCases() []upstreamCase {
	plain := []string{"100m 100Mi"}
	return []upstreamCase{
		{name: "recommendation, mode InPlaceOrRecreate", mode: cluster.InPlaceOrRecreate, pod: plain, advice: one, want: []string{"250m 200Mi"}},
		{name: "recommendation", pod: plain, advice: one, want: []string{"250m 200Mi"}},
		{name: "recommendation also for a container that the pod does not have", pod: plain, advice: map[string][2]int64{"removed": {500, 500}, "c0": {250, 200}},
			want: []string{"250m 200Mi"}},
		{name: "recommendation only for a container that the pod does not have", pod: plain, advice: map[string][2]int64{"removed": {250, 200}}, want: plain},
		{name: "recommendation for one of two containers", pod: []string{"100m 100Mi", "100m 100Mi"}, advice: one, want: []string{"250m 200Mi", "100m 100Mi"}},
		{name: "limits equal the requests", pod: []string{"100m/100m 100Mi/100Mi"}, advice: one, want: []string{"250m/250m 200Mi/200Mi"}},
		{name: "limits are in proportion to the requests", pod: []string{"100m/150m 100Mi/200Mi"}, advice: one, want: []string{"250m/375m 200Mi/400Mi"}},
		{name: "controlledValues is RequestsOnly", pod: []string{"100m/500m 100Mi/500Mi"}, advice: one, vpa: policyOf(cluster.ContainerPolicy{RequestsOnly: true}),
			want: []string{"250m/500m 200Mi/500Mi"}},
		{name: "recommendation above maxAllowed", pod: plain, advice: one, vpa: policyOf(cluster.ContainerPolicy{MaxAllowed: cluster.Amounts(233, 150<<20)}),
			want: []string{"233m 150Mi"}},
		{name: "recommendation below minAllowed", pod: plain, advice: map[string][2]int64{"c0": {50, 60}},
			vpa: policyOf(cluster.ContainerPolicy{MinAllowed: cluster.Amounts(90, 80<<20)}), want: []string{"90m 80Mi"}},
		{name: "no recommendation", pod: plain, want: plain},
		{name: "no recommendation, and no requests", pod: []string{""}, want: []string{""}},
		{name: "mode Off", mode: cluster.Off, pod: plain, advice: one, want: plain},
		{name: "mode Initial", mode: cluster.Initial, pod: plain, advice: one, want: []string{"250m 200Mi"}},
	}
}

// limitRangeCases are cases with a LimitRange. The API server gives a container without limits the maximum as limit, before it calls the webhook.
func limitRangeCases() []upstreamCase {
	two := map[string][2]int64{"c0": {250, 200}, "c1": {250, 200}}
	three := []string{"1m/1m 100Mi/100Mi", "1m/1m 100Mi/100Mi", "1m/1m 100Mi/100Mi"}
	unequal := map[string][2]int64{"c0": {4, 100}, "c1": {21, 100}, "c2": {90, 100}}
	return []upstreamCase{
		{name: "default limits are the maximum, recommendation also for a container that the pod does not have", pod: []string{"100m 100Mi"},
			advice: map[string][2]int64{"c0": {500, 500}, "c1": {250, 200}}, limits: most(corev1.LimitTypeContainer, "300m", "1Gi"), want: []string{"100m/300m 100Mi/1Gi"}},
		{name: "default limits are the maximum", pod: []string{"100m 100Mi"}, advice: one, limits: most(corev1.LimitTypeContainer, "300m", "1Gi"),
			want: []string{"100m/300m 100Mi/1Gi"}},
		{name: "maximum of the pod, recommendation for one of two containers", pod: []string{"100m/100m 100Mi/100Mi", "400m/400m 600Mi/600Mi"},
			advice: map[string][2]int64{"c0": {400, 600}}, limits: most(corev1.LimitTypePod, "400m", "1Gi"),
			want: []string{"200m/200m 512Mi/512Mi", "200m/200m 512Mi/512Mi"}},
		{name: "recommended limit above the maximum of containers", pod: []string{"100m/150m 100Mi/200Mi"}, advice: one,
			limits: most(corev1.LimitTypeContainer, "300m", "1Gi"), want: []string{"200m/300m 200Mi/400Mi"}},
		{name: "recommendation below the minimum of containers", pod: []string{"100m/150m 200Mi/400Mi"}, advice: map[string][2]int64{"c0": {250, 100}},
			limits: least(corev1.LimitTypeContainer, "50m", "250Mi"), want: []string{"250m/375m 250Mi/500Mi"}},
		{name: "recommended limits above the maximum of the pod", pod: []string{"100m/150m 100Mi/200Mi", "100m/150m 100Mi/200Mi"}, advice: two,
			limits: most(corev1.LimitTypePod, "600m", "1Gi"), want: []string{"200m/300m 200Mi/400Mi", "200m/300m 200Mi/400Mi"}},
		{name: "recommendations below the minimum of the pod", pod: []string{"100m/150m 200Mi/400Mi", "100m/150m 200Mi/400Mi"},
			advice: map[string][2]int64{"c0": {120, 100}, "c1": {120, 100}}, limits: least(corev1.LimitTypePod, "100m", "500Mi"),
			want: []string{"120m/180m 250Mi/500Mi", "120m/180m 250Mi/500Mi"}},
		{name: "different recommendations below the minimum of the pod are rounded up", pod: three, advice: unequal, limits: least(corev1.LimitTypePod, "150m", ""),
			want: []string{"6m/6m 100Mi/100Mi", "28m/28m 100Mi/100Mi", "118m/118m 100Mi/100Mi"}},
		{name: "different recommendations above the maximum of the pod are rounded down", pod: three, advice: unequal, limits: most(corev1.LimitTypePod, "80m", ""),
			want: []string{"2m/2m 100Mi/100Mi", "14m/14m 100Mi/100Mi", "62m/62m 100Mi/100Mi"}},
	}
}

// boostCases are cases with a startup boost.
func boostCases() []upstreamCase {
	plain, small := []string{"100m 100Mi"}, map[string][2]int64{"c0": {100, 100}}
	twice := cluster.Boost{Factor: 2}
	return []upstreamCase{
		{name: "boost by a factor", pod: plain, advice: small, vpa: boosted(twice, nil), want: []string{"200m 100Mi"}},
		{name: "boost by a quantity", pod: plain, advice: small, vpa: boosted(cluster.Boost{ByQuantity: true, Quantity: 500}, nil), want: []string{"600m 100Mi"}},
		{name: "boost, mode Off", mode: cluster.Off, pod: plain, vpa: boosted(twice, nil), want: []string{"200m 100Mi"}},
		{name: "boost, container with mode Off", pod: plain, vpa: boosted(twice, policyOf(cluster.ContainerPolicy{Off: true})), want: plain},
	}
}

// configured returns the configuration of the admission controller with a value of --compatibility and all feature gates.
func configured(t *testing.T, mode compatibility.Mode) admissioncontroller.Config {
	t.Helper()
	c := admissioncontroller.Defaults()
	fs := pflag.NewFlagSet("admission-controller", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Parse([]string{"--compatibility=" + string(mode), "--feature-gates=AllAlpha=true,AllBeta=true", "--reload-cert"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Compatibility.Apply(fs); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// someNodes are the nodes of the cluster: one with 8 cores and 32 GiB.
type someNodes struct{ options watcher.FleetOptions }

func (someNodes) Nodes() []cluster.Node {
	return []cluster.Node{{Name: "n", Allocatable: cluster.Amounts(8000, 32<<30), Ready: true}}
}
func (someNodes) NewNodes() ([]cluster.NewNode, bool) { return nil, true }
func (someNodes) Daemons() []cluster.Daemon           { return nil }
func (someNodes) Selectors() []cluster.NodeSelector   { return nil }
func (someNodes) Tolerations() []cluster.Tolerations  { return nil }
func (n someNodes) Sizes(*corev1.Pod) *fleet.Sizes {
	return watcher.Fleet(n, n.options).For(cluster.NodeSelector{}, cluster.Tolerations{}, false)
}

// serve starts the webhook of a configuration.
func serve(t *testing.T, c admissioncontroller.Config, view *namespaceView) *webhookClient {
	t.Helper()
	gates := webhook.Gates{InPlace: c.Gates.On(process.InPlaceGate), CPUStartupBoost: c.Gates.On(process.CPUStartupBoost), PerVPAConfig: c.Gates.On(process.PerVPAConfig)}
	handler := webhook.NewHandler(view, webhook.Options{Gates: gates, Nodes: someNodes{c.NodeFit.Options()}}, webhook.NewMetrics(prometheus.NewRegistry()),
		slog.New(slog.DiscardHandler))
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &webhookClient{url: server.URL, http: server.Client()}
}

// autoscaler returns the VPA of a case.
func (c *upstreamCase) autoscaler() *cluster.Autoscaler {
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: namespace, Name: "vpa"}, Target: target, Created: longAgo, Mode: c.mode}
	for name, x := range c.advice {
		to := cluster.Amounts(x[0], x[1]<<20)
		a.Advice = append(a.Advice, cluster.Advice{Container: name, Estimate: cluster.Estimate{Lower: to, Target: to, Upper: to}, Uncapped: to})
	}
	slices.SortFunc(a.Advice, func(x, y cluster.Advice) int { return strings.Compare(x.Container, y.Container) })
	if c.vpa != nil {
		c.vpa(a)
	}
	return a
}

// newPod returns the pod of a case before its admission.
func (c *upstreamCase) newPod() *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cart-1",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "cart", UID: "u", Controller: new(true)}}},
	}
	for i, size := range c.pod {
		x := corev1.Container{Name: fmt.Sprint("c", i), Image: "app"}
		if cpu, memory, found := strings.Cut(size, " "); found {
			cpuRequest, cpuLimit, _ := strings.Cut(cpu, "/")
			memoryRequest, memoryLimit, _ := strings.Cut(memory, "/")
			x.Resources = corev1.ResourceRequirements{Requests: resources(cpuRequest, memoryRequest), Limits: resources(cpuLimit, memoryLimit)}
		}
		p.Spec.Containers = append(p.Spec.Containers, x)
	}
	return p
}

// sizes returns the requests and limits of the containers of a pod, as in a case.
func sizes(p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.Containers {
		var amounts []string
		for _, name := range sized {
			r := p.Spec.Containers[i].Resources
			text := ""
			if request, found := r.Requests[name]; found {
				text = request.String()
			}
			if limit, found := r.Limits[name]; found {
				text += "/" + limit.String()
			}
			if text != "" {
				amounts = append(amounts, text)
			}
		}
		out = append(out, strings.Join(amounts, " "))
	}
	return out
}

func TestCompatibility_newPodsOfUpstreamsCases_haveUpstreamsSizeWithBothValues(t *testing.T) {
	for _, c := range slices.Concat(recommendationCases(), limitRangeCases(), boostCases()) {
		for _, mode := range []compatibility.Mode{compatibility.Podfit, compatibility.Upstream} {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				ranges, err := limitRange(&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "range"}, Spec: corev1.LimitRangeSpec{Limits: c.limits}})
				if err != nil {
					t.Fatal(err)
				}
				view := &namespaceView{autoscaler: c.autoscaler(), limits: policy.Limits{Range: limitView(ranges)}}
				api := &apiServer{limitRanges: []*corev1.LimitRange{ranges}, webhook: serve(t, configured(t, mode), view), once: true}
				got, err := api.create(c.newPod())
				if err != nil {
					t.Fatalf("rejected: %v", err)
				}
				if text := sizes(got); !slices.Equal(text, c.want) {
					t.Errorf("got %q, want %q\n%s", text, c.want, got.Annotations[policy.UpdatesAnnotation])
				}
			})
		}
	}
}

// review sends a request to the webhook.
func (c *webhookClient) review(t *testing.T, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	review := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request}
	response, err := c.http.Post(c.url, "application/json", bytes.NewReader(mustMarshal(review)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var reviewed admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&reviewed); err != nil || response.StatusCode != http.StatusOK || reviewed.Response == nil {
		t.Fatalf("status %d, error %v", response.StatusCode, err)
	}
	return reviewed.Response
}

// A pod gets an annotation after its recommendation has changed. The API server does not call the webhook for that; if it did, the webhook would
// neither reject nor change the pod.
func TestCompatibility_podIsAnnotatedAfterItsRecommendationChanged_isNotChanged(t *testing.T) {
	for _, mode := range []compatibility.Mode{compatibility.Podfit, compatibility.Upstream} {
		c := upstreamCase{pod: []string{"250m 200Mi"}, advice: map[string][2]int64{"c0": {100, 100}}}
		client := serve(t, configured(t, mode), &namespaceView{autoscaler: c.autoscaler()})
		old := c.newPod()
		changed := old.DeepCopy()
		changed.Annotations = map[string]string{"any": "value"}
		got := client.review(t, &admissionv1.AdmissionRequest{
			UID: podUID, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Namespace: namespace, Name: old.Name, Operation: admissionv1.Update,
			Object: runtime.RawExtension{Raw: mustMarshal(changed)}, OldObject: runtime.RawExtension{Raw: mustMarshal(old)},
		})
		if !got.Allowed || len(got.Patch) > 0 {
			t.Errorf("%s: allowed %v, patch %s; want neither a rejection nor a patch", mode, got.Allowed, got.Patch)
		}
	}
}

func TestCompatibility_newVPAsOfUpstreamsCases_areAdmittedOrRejectedWithBothValues(t *testing.T) {
	const quantity = `VerticalPodAutoscaler.autoscaling.k8s.io "web" is invalid: .: Internal error: quantities must match the regular expression ` +
		`'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'` // the API server puts the name of the webhook before it
	for name, c := range map[string]struct {
		policy string // fields of the policy for all containers
		want   string // part of the error; "" if the VPA is admitted
	}{
		"minAllowed":                       {`"minAllowed":{"cpu":"50m"}`, ""},
		"minAllowed with a field too much": {`"minAllowed":{"requests":{"cpu":"50m"}}`, "is invalid"},
		"oomBumpUpRatio is no number":      {`"oomBumpUpRatio":"not-a-number","oomMinBumpUp":104857600`, quantity},
		"oomBumpUpRatio is negative":       {`"oomBumpUpRatio":-1,"oomMinBumpUp":104857600`, "must be greater than or equal to 1.0"},
		"oomBumpUpRatio below 1":           {`"oomBumpUpRatio":0.5,"oomMinBumpUp":104857600`, "must be greater than or equal to 1.0"},
		"oomMinBumpUp is negative":         {`"oomBumpUpRatio":2,"oomMinBumpUp":-1`, "must be greater than or equal to 0"},
	} {
		for _, mode := range []compatibility.Mode{compatibility.Podfit, compatibility.Upstream} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				client := serve(t, configured(t, mode), &namespaceView{autoscaler: &cluster.Autoscaler{}})
				kind := metav1.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"}
				got := client.review(t, &admissionv1.AdmissionRequest{
					UID: podUID, Kind: kind, RequestKind: &kind, Namespace: namespace, Name: "web", Operation: admissionv1.Create,
					Resource: metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: "verticalpodautoscalers"},
					Object: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"autoscaling.k8s.io/v1","kind":"VerticalPodAutoscaler","metadata":{"name":"web"},
						"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"Recreate"},
						"resourcePolicy":{"containerPolicies":[{"containerName":"*",%s}]}}}`, c.policy)},
				})
				if got.Allowed != (c.want == "") || !got.Allowed && !strings.Contains(got.Result.Message, c.want) {
					t.Errorf("allowed %v, result %v; want the error %q", got.Allowed, got.Result, c.want)
				}
			})
		}
	}
}

// Whether and how the webhook reloads its certificate files does not depend on the switch, so TestServer_changedCertificateFiles_areReloaded
// shows it for both values.
func TestCompatibility_configurationOfTheWebhookServer_isTheSameWithBothValues(t *testing.T) {
	podfit, upstream := configured(t, compatibility.Podfit), configured(t, compatibility.Upstream)
	if reflect.DeepEqual(podfit.Common, upstream.Common) {
		t.Error("the switch changes no flag")
	}
	upstream.Common = podfit.Common
	if !reflect.DeepEqual(podfit, upstream) {
		t.Errorf("got %+v\nand %+v", podfit, upstream)
	}
}
