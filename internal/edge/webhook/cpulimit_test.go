// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// changesOf returns "op path value" of each operation of the patch for a new pod.
func changesOf(t *testing.T, w fakeWorld, o Options, pod string) []string {
	t.Helper()
	var ops []struct {
		Op, Path string
		Value    json.RawMessage
	}
	response := ask(t, handler(w, o), createRequest(pod))
	if err := json.Unmarshal(response.Patch, &ops); err != nil {
		t.Fatalf("%v in %s", err, response.Patch)
	}
	var out []string
	for _, o := range ops {
		out = append(out, strings.TrimSpace(o.Op+" "+o.Path+" "+string(o.Value)))
	}
	apply(t, pod, response.Patch)
	return out
}

func TestHandler_cpuLimitsRemoved_newPodHasNone(t *testing.T) {
	app := map[string]cluster.Resources{"app": cluster.Amounts(350, mi(745))}
	const both = `"resources":{"requests":{"cpu":"100m","memory":"100Mi"},"limits":{"cpu":"100m","memory":"100Mi"}}`
	for name, c := range map[string]struct {
		change func(*cluster.Autoscaler)
		limits policy.Limits
		pod    string
		want   []string
	}{
		"a Guaranteed pod": {
			pod: cart(`"annotations":{}`, `"containers":[{"name":"app",`+both+`}]`),
			want: []string{
				`remove /spec/containers/0/resources/limits/cpu`,
				`add /spec/containers/0/resources/requests/cpu "350m"`,
				`add /spec/containers/0/resources/requests/memory "745Mi"`,
				`add /spec/containers/0/resources/limits/memory "745Mi"`,
				`add /metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu: limit NOT set since originalLimit is nil or 0, ` +
					`cpu request, memory request, memory limit; cpu limit removed: container app"`,
				`add /metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"a container without recommendation and one with mode Off": {
			change: func(a *cluster.Autoscaler) {
				a.Policies = []cluster.ContainerPolicy{{Container: "app", Off: true}}
				a.Advice = nil
			},
			pod: cart(`"annotations":{}`, `"containers":[{"name":"app",`+both+`},{"name":"log",`+both+`}]`),
			want: []string{
				`remove /spec/containers/1/resources/limits/cpu`,
				`add /metadata/annotations/vpaUpdates "Pod resources updated by cart: cpu limit removed: container log"`,
				`add /metadata/annotations/vpaObservedContainers "app, log"`,
			},
		},
		"a startup boost: the record of the original has no CPU limit": {
			change: func(a *cluster.Autoscaler) { a.Boost = &cluster.Boost{Factor: 2} },
			pod:    cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m","memory":"745Mi"},"limits":{"cpu":"200m"}}}]`),
			want: []string{
				`add /metadata/annotations/vpaCpuStartupBoost~1app "{\"requests\":{\"cpu\":\"100m\",\"memory\":\"745Mi\"},\"limits\":{}}"`,
				`remove /spec/containers/0/resources/limits/cpu`,
				`add /spec/containers/0/resources/requests/cpu "700m"`,
				`add /spec/containers/0/resources/requests/memory "745Mi"`,
				`add /metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request, memory request; cpu limit removed: container app"`,
				`add /metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"a JVM that gets the number of its processors": {
			change: func(a *cluster.Autoscaler) { a.Guards.InjectCPUCount = true },
			pod:    cart(`"annotations":{}`, `"containers":[{"name":"app","command":["java"],"resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}}]`),
			want: []string{
				`remove /spec/containers/0/resources/limits/cpu`,
				`add /spec/containers/0/resources/requests/cpu "350m"`,
				`add /spec/containers/0/resources/requests/memory "745Mi"`,
				`add /spec/containers/0/env []`,
				`add /spec/containers/0/env/- {"name":"JAVA_TOOL_OPTIONS","value":"-XX:ActiveProcessorCount=1"}`,
				`add /metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request, memory request; ` +
					`cpu limit removed: container app; environment set: JAVA_TOOL_OPTIONS of container app"`,
				`add /metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"a quota that requires the limit": {
			limits: policy.Limits{Quotas: &cluster.Quotas{List: []cluster.Quota{{
				Name: "compute", Left: cluster.PodResources{Limits: cluster.Resources{}.Set(cluster.CPU, 9000)},
			}}}},
			pod: cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m","memory":"745Mi"},"limits":{"cpu":"200m"}}}]`),
			want: []string{
				`add /spec/containers/0/resources/requests/cpu "350m"`,
				`add /spec/containers/0/resources/requests/memory "745Mi"`,
				`add /spec/containers/0/resources/limits/cpu "700m"`,
				`add /metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: memory: limit NOT set since originalLimit is nil or 0, cpu request, memory request, cpu limit; ` +
					`cpu limit kept: container app: the API server would refuse the pod without it: ResourceQuota compute requires cpu limits of every container"`,
				`add /metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"the recommended size is refused with and without the limit": {
			limits: policy.Limits{Quotas: &cluster.Quotas{List: []cluster.Quota{{
				Name: "compute", Left: cluster.PodResources{Requests: cluster.Resources{}.Set(cluster.CPU, 200)},
			}}}},
			pod: cart(`"annotations":{}`, `"containers":[{"name":"app",`+both+`}]`),
			want: []string{
				`add /metadata/annotations/vpaUpdates "Pod resources NOT updated by cart: the API server would refuse the pod: ` +
					`the cpu requests of the pod are 350m, and ResourceQuota compute has 200m left; cpu limit kept: container app: ` +
					`the API server would refuse the pod without it: the cpu requests of the pod are 350m, and ResourceQuota compute has 200m left"`,
				`add /metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"hostile amounts": {
			pod: cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"1"},"limits":{"cpu":null}}},
				{"name":"log","resources":{"requests":{"cpu":"0"},"limits":{"cpu":"0"}}},{"name":"big","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"9e15"}}}]`),
			want: []string{
				`add /spec/containers/0/resources/requests/cpu "350m"`,
				`add /spec/containers/0/resources/requests/memory "745Mi"`,
				`remove /spec/containers/2/resources/limits/cpu`,
				`add /metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request, memory request; cpu limit removed: container big"`,
				`add /metadata/annotations/vpaObservedContainers "app, log, big"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := recommending("cart", app)
			a.CPULimits.Remove = true
			if c.change != nil {
				c.change(a)
			}
			w := worldOf(a)
			w.limits["shop"] = c.limits
			o := Options{Gates: Gates{CPUStartupBoost: true}}
			if diff := cmp.Diff(c.want, changesOf(t, w, o, c.pod)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			a.CPULimits = cluster.LimitRule{}
			if kept := strings.Join(changesOf(t, w, o, c.pod), "\n"); strings.Contains(kept, "remove /spec") || strings.Contains(kept, "cpu limit removed") {
				t.Errorf("without the rule:\n%s", kept)
			}
		})
	}
}

// The API server may call the webhook again for the same pod.
func TestHandler_podWithoutItsCPULimit_isNotPatchedAgain(t *testing.T) {
	a := recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(350, mi(745))})
	a.CPULimits.Remove = true
	h := handler(worldOf(a), Options{})
	pod := cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"200m"}}}]`)
	first, err := json.Marshal(apply(t, pod, ask(t, h, createRequest(pod)).Patch))
	if err != nil {
		t.Fatal(err)
	}
	patch := ask(t, h, createRequest(string(first))).Patch
	if strings.Contains(string(patch), "remove") || strings.Contains(string(patch), "limits/cpu") {
		t.Errorf("second patch %s", patch)
	}
}
