// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/compatibility"
)

// Upstream's cases about native sidecars need the feature gate NativeSidecar, which release 1.8.1 does not have. --size-sidecars is podfit's flag for
// it, and --compatibility=upstream sets it to false.

// sidecarCases returns the cases with the feature gate, and sidecarCasesWithoutGate those without it.
func sidecarCases() []upstreamCase {
	both := func(app, sidecar string) map[string]string { return map[string]string{"app": app, "mesh": sidecar} }
	const recreate, inPlace, large = `"updatePolicy":{"updateMode":"Recreate"}`, `"updatePolicy":{"updateMode":"InPlaceOrRecreate"}`, `{"cpu":"250m","memory":"200Mi"}`
	return []upstreamCase{
		{name: "sidecar outside of its bounds", running: true, vpa: recreate, advice: map[string]string{"mesh": amounts(100, 100)}, containers: sized("app", 50, 50), inits: mesh(50, 50),
			phases: sizes([]string{"50m 50Mi"}, "100m 100Mi")},
		{name: "sidecar and container outside of their bounds", running: true, vpa: recreate, advice: both(amounts(200, 200), amounts(200, 200)), containers: sized("app", 100, 100),
			inits: mesh(50, 50), phases: sizes([]string{"200m 200Mi"}, "200m 200Mi")},
		{name: "sidecar outside of its bounds, and an init container", running: true, vpa: recreate, advice: map[string]string{"mesh": amounts(100, 100)}, containers: sized("app", 50, 50),
			inits: mesh(50, 50) + "," + sized("setup", 50, 50), phases: sizes([]string{"50m 50Mi"}, "100m 100Mi", "50m 50Mi")},
		{name: "sidecar within its bounds", running: true, vpa: recreate, advice: both(amounts(100, 100), amounts(50, 50)), containers: sized("app", 100, 100), inits: mesh(50, 50),
			phases: sizes([]string{"100m 100Mi"}, "50m 50Mi"), stays: true},
		{name: "sidecar and container grow in place", running: true, vpa: inPlace, advice: both(amounts(150, 150), amounts(75, 75)), containers: sized("app", 100, 100), inits: mesh(50, 50),
			phases: sizes([]string{"150m 150Mi"}, "75m 75Mi"), stays: true},
		{name: "new pods with a sidecar", vpa: recreate, advice: both(large, amounts(100, 100)), containers: sized("app", 100, 100), inits: mesh(50, 50),
			phases: sizes([]string{"250m 200Mi"}, "100m 100Mi"), observed: "app, mesh", stays: true},
		{name: "new pods with a sidecar, a LimitRange caps the pod", vpa: recreate, advice: both(large, large), limits: `{"type":"Pod","max":{"cpu":"600m","memory":"1Gi"}}`,
			containers: limited(sized("app", 100, 100)), inits: limited(mesh(100, 100)), phases: sizes([]string{"200m 200Mi"}, "200m 200Mi"), stays: true},
	}
}

func sidecarCasesWithoutGate() []upstreamCase {
	const recreate = `"updatePolicy":{"updateMode":"Recreate"}`
	return []upstreamCase{
		{name: "no gate, sidecar outside of its bounds", vpa: recreate, advice: map[string]string{"mesh": amounts(100, 100)}, containers: sized("app", 50, 50),
			inits: mesh(50, 50), phases: sizes([]string{"50m 50Mi"}, "50m 50Mi"), observed: "app", stays: true},
		{name: "no gate, new pods with a sidecar", vpa: recreate, advice: map[string]string{"app": `{"cpu":"250m","memory":"200Mi"}`, "mesh": amounts(100, 100)},
			containers: sized("app", 100, 100), inits: mesh(50, 50), phases: sizes([]string{"250m 200Mi"}, "50m 50Mi"), stays: true},
	}
}

// amounts returns a recommendation, in millicores and MiB.
func amounts(cpu, memory int) string {
	return fmt.Sprintf(`{"cpu":"%dm","memory":"%dMi"}`, cpu, memory)
}

// sized returns a container with requests, in millicores and MiB.
func sized(name string, cpu, memory int) string {
	return fmt.Sprintf(`{"name":%q,"image":"app","resources":{"requests":%s}}`, name, amounts(cpu, memory))
}

// mesh returns a native sidecar with requests.
func mesh(cpu, memory int) string {
	return strings.TrimSuffix(sized("mesh", cpu, memory), "}") + `,"restartPolicy":"Always"}`
}

// limited gives a container limits of 150m and 200Mi.
func limited(container string) string {
	return strings.Replace(container, `"resources":{`, `"resources":{"limits":`+amounts(150, 200)+`,`, 1)
}

// sizes returns phases in which containers and init containers must have these requests of CPU and memory.
func sizes(containers []string, inits ...string) []phase {
	cpu := phase{cpu: "5m", memory: "10Mi", resource: corev1.ResourceCPU, within: usualWait}
	memory := cpu
	memory.resource = corev1.ResourceMemory
	exactly := func(all []string) (cores, bytes []string) {
		for _, size := range all {
			c, m, _ := strings.Cut(size, " ")
			cores, bytes = append(cores, c+" "+c), append(bytes, m+" "+m)
		}
		return cores, bytes
	}
	cpu.want, memory.want = exactly(containers)
	cpu.inits, memory.inits = exactly(inits)
	return []phase{cpu, memory}
}

func TestCompatibility_nativeSidecarsOfUpstreamsCases_haveUpstreamsSizeWithBothValues(t *testing.T) {
	for gate, cases := range map[bool][]upstreamCase{true: sidecarCases(), false: sidecarCasesWithoutGate()} {
		for _, c := range cases {
			for _, mode := range []compatibility.Mode{compatibility.Podfit, compatibility.Upstream} {
				t.Run(c.name+"/"+string(mode), func(t *testing.T) {
					var flags []string
					if gate != (mode == compatibility.Podfit) {
						flags = []string{"--size-sidecars=" + strconv.FormatBool(gate)}
					}
					config := configured(t, mode, flags...)
					c.fixed = true
					c.run(t, &config)
				})
			}
		}
	}
}
