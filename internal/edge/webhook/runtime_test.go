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

// operationsOf returns "path value" of each operation of the patch for a new pod.
func operationsOf(t *testing.T, a *cluster.Autoscaler, o Options, pod string) []string {
	t.Helper()
	var ops []struct {
		Op, Path string
		Value    json.RawMessage
	}
	response := ask(t, handler(worldOf(a), o), createRequest(pod))
	if err := json.Unmarshal(response.Patch, &ops); err != nil {
		t.Fatalf("%v in %s", err, response.Patch)
	}
	var out []string
	for _, o := range ops {
		out = append(out, o.Path+" "+string(o.Value))
	}
	return out
}

func TestHandler_injectCPUCount_addsTheVariableUnlessItMayBeSet(t *testing.T) {
	const requests = `"resources":{"requests":{"cpu":"100m"}}`
	for name, c := range map[string]struct {
		container string
		want      []string // about the environment
	}{
		"a JVM": {`"command":["java"]`, []string{
			`/spec/containers/0/env []`, `/spec/containers/0/env/- {"name":"JAVA_TOOL_OPTIONS","value":"-XX:ActiveProcessorCount=3"}`,
		}},
		"a JVM with other variables": {`"command":["java"],"env":[{"name":"A","value":"b"}]`, []string{
			`/spec/containers/0/env/- {"name":"JAVA_TOOL_OPTIONS","value":"-XX:ActiveProcessorCount=3"}`,
		}},
		"a JVM with no variables": {`"command":["java"],"env":[]`, []string{
			`/spec/containers/0/env/- {"name":"JAVA_TOOL_OPTIONS","value":"-XX:ActiveProcessorCount=3"}`,
		}},
		"Go": {`"env":[{"name":"GOMEMLIMIT","value":"1GiB"}]`, []string{`/spec/containers/0/env/- {"name":"GOMAXPROCS","value":"3"}`}},
		".NET": {`"image":"mcr.microsoft.com/dotnet/aspnet:9.0","env":null`, []string{
			`/spec/containers/0/env []`, `/spec/containers/0/env/- {"name":"DOTNET_PROCESSOR_COUNT","value":"3"}`,
		}},
		"options are set":                {`"command":["java"],"env":[{"name":"JAVA_TOOL_OPTIONS","value":"-Xmx1g"}]`, nil},
		"options come from an object":    {`"command":["java"],"env":[{"name":"JAVA_TOOL_OPTIONS","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]`, nil},
		"the number is an argument":      {`"command":["java","-XX:ActiveProcessorCount=9"]`, nil},
		"the environment is not known":   {`"command":["java"],"envFrom":[{"configMapRef":{"name":"x"}}]`, nil},
		"the variable is not a variable": {`"command":["java"],"env":["x"]`, nil},
		"Node.js":                        {`"command":["node"]`, nil},
		"an unknown runtime":             {`"command":["/app"]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 2001)})
			a.Guards.InjectCPUCount = true
			pod := cart(`"annotations":{}`, `"containers":[{"name":"app",`+requests+`,`+c.container+`}]`)
			var got []string
			updates := ""
			for _, op := range operationsOf(t, a, Options{}, pod) {
				switch {
				case strings.Contains(op, "/env"):
					got = append(got, op)
				case strings.Contains(op, policy.UpdatesAnnotation):
					updates = op
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if said := strings.Contains(updates, "; environment set: "); said != (c.want != nil) {
				t.Errorf("annotation: %s", updates)
			}
			a.Guards = cluster.RuntimeGuards{}
			for _, op := range operationsOf(t, a, Options{}, pod) {
				if strings.Contains(op, "/env") || strings.Contains(op, "environment") {
					t.Errorf("without the annotation: %s", op)
				}
			}
		})
	}
}

// The number follows the steady request, not the one during a startup boost.
func TestHandler_injectCPUCountAndBoost_usesTheRequestAfterTheBoost(t *testing.T) {
	a := recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 500)})
	a.Guards.InjectCPUCount = true
	a.Boost = &cluster.Boost{Factor: 8}
	ops := strings.Join(operationsOf(t, a, Options{Gates: allGates}, cart("", `"containers":[{"name":"app","command":["java"],"resources":{"requests":{"cpu":"100m"}}}]`)), "\n")
	if !strings.Contains(ops, `/resources/requests/cpu "4"`) || !strings.Contains(ops, `ActiveProcessorCount=1"`) {
		t.Errorf("operations:\n%s", ops)
	}
}

func TestHandler_cpuGuard_raisesTheRequestOfAJVM(t *testing.T) {
	a := recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 1000)})
	pod := cart(`"annotations":{}`, `"containers":[{"name":"app","command":["java"],"resources":{"requests":{"cpu":"100m"}}}]`)
	without := strings.Join(operationsOf(t, a, Options{}, pod), "\n")
	if !strings.Contains(without, `/resources/requests/cpu "1"`) || strings.Contains(without, "JVM") {
		t.Errorf("without guards:\n%s", without)
	}
	a.Guards.CPU = true
	with := strings.Join(operationsOf(t, a, Options{}, pod), "\n")
	if !strings.Contains(with, `/resources/requests/cpu "1001m"`) || !strings.Contains(with, "cpu raised above a range that a JVM misreads, cpu request") {
		t.Errorf("with the guard:\n%s", with)
	}
}

// A pod that keeps its own resources gets the number for its own request.
func TestHandler_sizeRefusedAndInjection_usesThePodsOwnRequest(t *testing.T) {
	a := recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 5000)})
	a.Guards.InjectCPUCount = true
	a.Mode = cluster.Initial
	world := worldOf(a)
	world.limits["shop"] = policy.Limits{Quotas: &cluster.Quotas{TooMany: true}}
	h := handler(world, Options{})
	pod := cart("", `"containers":[{"name":"app","command":["java"],"resources":{"requests":{"cpu":"1500m"}}}]`)
	patch := string(ask(t, h, createRequest(pod)).Patch)
	if strings.Contains(patch, "/resources/") || !strings.Contains(patch, "ActiveProcessorCount=2") {
		t.Errorf("patch %s", patch)
	}
}

func FuzzRuntimeFields(f *testing.F) {
	for _, seed := range []string{
		`{"env":[{"name":"JAVA_TOOL_OPTIONS","value":"-Xmx1g"}],"command":["java"],"args":[1,null,{}],"envFrom":[],"image":7}`,
		`{"env":{"name":"x"},"command":"java","args":null,"envFrom":{},"image":null}`, `{"env":[null,[],"x",{"name":"\u004aAVA_X"}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, container string) {
		if !json.Valid([]byte(container)) || !strings.HasPrefix(container, "{") {
			return
		}
		whole := `{"spec":{"containers":[` + container + `]},"metadata":{"labels":` + container + `}}`
		p, err := decodePod([]byte(whole))
		if err == nil {
			runtimesOf(p)
		}
	})
}
