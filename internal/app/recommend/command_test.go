// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podfit.dev/podfit/test/kubetest"
)

func TestRecommend_wrongCall_namesAllMistakesAndExitCodeIs2(t *testing.T) {
	for args, want := range map[string][]string{
		"--source promethus":                      {`--source must be one of auto, cluster, prometheus, metrics, trace, got "promethus" (did you mean prometheus?)`},
		"--output jsn --limits some --top -1":     {"--output must be one of", "did you mean json?", "--limits must be one of keep, proportional, none, memory-only", "--top must be at least 0"},
		"--source trace":                          {"--source trace requires --trace"},
		"--trace x --source metrics":              {"--trace and --source metrics cannot both be set"},
		"--trace x --prometheus http://localhost": {"--trace and --prometheus cannot both be set"},
		"--prometheus localhost:9090":             {`--prometheus must be a URL such as http://localhost:9090, got "localhost:9090"`},
		"--opencost x":                            {"--opencost must be a URL"},
		"--prometheus-header x":                   {"--prometheus-header must be 'Name: value'"},
		"--prometheus-param dedup":                {"--prometheus-param must be NAME=VALUE such as dedup=false"},
		"--prometheus-param time=1":               {"--prometheus-param cannot set time"},
		"--prometheus http://a?dedup=false":       {"set them with --prometheus-param"},
		"--cluster-label x":                       {"--cluster-label must be a label and a value such as cluster=prod"},
		"--history soon":                          {"--history must be a duration such as 12h or 14d"},
		"--source metrics --for 15s":              {"--for must be at least 2m0s, because one reading of usage is no basis for a recommendation"},
		"--profile a --profile a":                 {"--profile lists a twice"},
		"--trace x --profile balancd":             {`there is no profile "balancd"`},
		"--no-money --prices x":                   {"--no-money excludes --prices"},
		"--prices x --opencost http://x":          {"--prices and --opencost cannot both be set"},
		"--fail-saving -1":                        {"--fail-saving must be an amount of money of at least 0"},
		"--fail-on cost":                          {"--fail-on must be one of risk, waste"},
		"--group-by team":                         {"--group-by must be workload, namespace, pool or label=NAME"},
		"-A -n shop":                              {"--all-namespaces and --namespace cannot both be set"},
		"-n [":                                    {"--namespace must be a name or a pattern"},
		"--exclude-namespaces [":                  {"--exclude-namespaces must be a name or a pattern"},
		"-l a==b==c":                              {"--selector must be a selector such as app=web"},
		"cart":                                    {"a workload must be KIND/NAME, such as deploy/cart"},
		"deploy/cart/x":                           {"a workload must be KIND/NAME"},
	} {
		r := runCommand(t.Context(), strings.Fields(args)...)
		if r.code != 2 || r.out != "" {
			t.Errorf("%s: got exit code %d", args, r.code)
		}
		for _, w := range want {
			if !strings.Contains(r.errs, w) {
				t.Errorf("%s: got error %s, want %s", args, r.errs, w)
			}
		}
	}
}

func TestRecommend_scope_selectsWorkloads(t *testing.T) {
	f := shop(t)
	config := kubeconfig(t, f.URL())
	for args, want := range map[string]string{
		"":                             "cart feature-store front",
		"-n shop":                      "cart",
		"-n shop -n web":               "cart front",
		"-n s*,m?":                     "cart feature-store",
		"--exclude-namespaces=shop":    "feature-store front",
		"--exclude-namespaces=s*,web":  "feature-store",
		"-n s* --exclude-namespaces=x": "cart",
		"--kind deployments":           "cart feature-store front",
		"deploy/cart deployment/front": "cart front",
		"Deployment/cart -n shop":      "cart",
		"-l app=front":                 "front",
	} {
		r := runCommand(t.Context(), append([]string{"--kubeconfig", config, "--source", "cluster", "-o", "json", "--sort", "name"}, strings.Fields(args)...)...)
		var report struct {
			Containers []struct{ Namespace, Name string }
			Summary    struct{ NodesThatCouldGo *int }
		}
		if err := json.Unmarshal([]byte(r.out), &report); err != nil {
			t.Fatalf("%s: %v, error %s", args, err, r.errs)
		}
		names := map[string]bool{}
		for _, c := range report.Containers {
			names[c.Name] = true
		}
		for _, name := range strings.Fields("cart feature-store front") {
			if names[name] != strings.Contains(want, name) {
				t.Errorf("%q: got %v, want %s", args, report.Containers, want)
			}
		}
		// With one namespace, the other pods of the nodes are not known.
		if one := strings.HasSuffix(args, "-n shop"); (report.Summary.NodesThatCouldGo == nil) != one {
			t.Errorf("%q: got nodes that could go %v", args, report.Summary.NodesThatCouldGo)
		}
	}
	for args, want := range map[string]string{
		"deploy/carr":      "there is no deploy/carr with live pods in the cluster",
		"--kind DaemonSet": "there are no workloads with live pods in the cluster",
		"-n none":          "there are no workloads with live pods in namespace none",

		"--exclude-namespaces=*": "there are no workloads with live pods in the cluster, without *",
	} {
		r := runCommand(t.Context(), append([]string{"--kubeconfig", config, "--source", "cluster"}, strings.Fields(args)...)...)
		if r.code != 1 || !strings.Contains(r.errs, want) {
			t.Errorf("%s: got exit code %d and error %s", args, r.code, r.errs)
		}
	}
	r := runCommand(t.Context(), "--kubeconfig", config, "--source", "cluster", "--profile", "critcal")
	if r.code != 2 || !strings.Contains(r.errs, "did you mean critical?") {
		t.Errorf("unknown profile: got exit code %d and error %s", r.code, r.errs)
	}
}

func TestRecommend_failFlags_setExitCode4(t *testing.T) {
	f := shop(t)
	config := kubeconfig(t, f.URL())
	for args, want := range map[string]int{
		"--fail-on risk":                      4,
		"--fail-on waste":                     4,
		"--fail-on waste deploy/cart":         0,
		"--fail-on risk deploy/feature-store": 0,
		"--fail-saving 1":                     4,
		"--fail-saving 100000":                0,
		"":                                    0,
	} {
		r := runCommand(t.Context(), append([]string{"--kubeconfig", config, "--source", "cluster"}, strings.Fields(args)...)...)
		if r.code != want || r.out == "" || (want == 4) != strings.Contains(r.errs, "--fail-") {
			t.Errorf("%q: got exit code %d and error %s, want %d", args, r.code, r.errs, want)
		}
	}
}

func TestRecommend_withoutVPAs_works(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	deployment{"shop", "cart", 2, `{"cpu":"500m","memory":"1Gi"}`, `{}`, "", 0}.apply(f)
	f.Reply("GET "+kubetest.AutoscalersPath, http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"the server could not find the requested resource"}`)
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster", "--sort", "name")
	if r.code != 0 || !strings.Contains(r.out, "no VPA: the cluster stores no usage of it; use --source prometheus or metrics") || strings.Contains(r.out, "→") {
		t.Errorf("got exit code %d, error %s and report\n%s", r.code, r.errs, r.out)
	}
}

// Nodes and SizingProfiles are in no namespace, so a team has no right to them. The numbers are right without them, so they are notes.
func TestRecommend_missingRights_areReported(t *testing.T) {
	forbidden := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"nodes is forbidden: User \"u\" cannot list resource"}`
	f := shop(t)
	f.Reply("GET /api/v1/nodes", http.StatusForbidden, forbidden)
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster")
	if r.code != 0 || !strings.Contains(r.out, "No right to list nodes, so it is not known how many could go") || strings.Contains(r.out, "Incomplete") || !strings.Contains(r.out, "shop/deploy/cart") {
		t.Errorf("nodes: got exit code %d, error %s and report\n%s", r.code, r.errs, r.out)
	}
	f = shop(t)
	f.Reply("GET /apis/podfit.dev/v1alpha1/sizingprofiles", http.StatusForbidden, forbidden)
	r = runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster")
	if r.code != 0 || !strings.Contains(r.out, "No right to list SizingProfiles, so only the built-in profiles are known") || strings.Contains(r.out, "Incomplete") {
		t.Errorf("SizingProfiles: got exit code %d, error %s and report\n%s", r.code, r.errs, r.out)
	}
	f = shop(t)
	f.Reply("GET /apis/apps/v1/replicasets", http.StatusForbidden, forbidden)
	r = runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster")
	if r.code != 1 || !strings.Contains(r.errs, "grant list on replicasets, as the ClusterRole view does") {
		t.Errorf("replicasets: got exit code %d and error %s", r.code, r.errs)
	}
	f = shop(t)
	f.Reply("GET /api/v1/pods", http.StatusUnauthorized, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401,"message":"Unauthorized"}`)
	r = runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()))
	if r.code != 1 || !strings.Contains(r.errs, "401 Unauthorized") || strings.Contains(strings.TrimSpace(r.errs), "\n") {
		t.Errorf("credentials: got exit code %d and error %s", r.code, r.errs)
	}
}

// The cluster is read once, without the right to watch.
func TestRecommend_rightsToGetAndList_areEnough(t *testing.T) {
	f := shop(t)
	refuse(f, func(r *http.Request) bool { return r.URL.Query().Has("watch") })
	for name, scope := range map[string][]string{"all namespaces": nil, "one namespace": {"-n", "shop"}} {
		r := runCommand(t.Context(), append(scope, "--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster")...)
		if r.code != 0 || !strings.Contains(r.out, "shop/deploy/cart") {
			t.Errorf("%s: got exit code %d, error %s and report\n%s", name, r.code, r.errs, r.out)
		}
	}
}

// A kubelet runs a static pod from a file: nothing in the cluster can change its requests, but it needs room on its node.
func TestRecommend_staticPods_onlyNeedRoom(t *testing.T) {
	f := shop(t)
	f.Apply(kubetest.PodsPath, `{"metadata":{"namespace":"kube-system","name":"etcd-node-0","uid":"s","annotations":{"kubernetes.io/config.mirror":"a"},
		"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"node-0","uid":"n","controller":true}]},
		"spec":{"nodeName":"node-0","containers":[{"name":"etcd","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Running"}}`)
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--source", "cluster", "--sort", "name")
	if r.code != 0 || strings.Contains(r.out, "etcd") || !strings.Contains(r.out, "3 workloads, 6 pods") {
		t.Errorf("got exit code %d, error %s and report\n%s", r.code, r.errs, r.out)
	}
	if with, without := requested(t, r.out), requested(t, runCommand(t.Context(), "--kubeconfig", kubeconfig(t, shop(t).URL()), "--source", "cluster", "--sort", "name").out); with == without {
		t.Errorf("requested with and without it: %s", with)
	}
}

// requested returns the line of a report with the share that is requested.
func requested(t *testing.T, report string) string {
	t.Helper()
	for line := range strings.Lines(report) {
		if strings.Contains(line, "Pods request") {
			return line
		}
	}
	t.Fatalf("no share in\n%s", report)
	return ""
}

func TestRecommend_hpa_keepsRequestOrFollows(t *testing.T) {
	f := shop(t)
	f.Apply(horizontalPath, `{"metadata":{"namespace":"ml","name":"feature"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"feature-store"},"maxReplicas":9,
		"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":13}}}]}}`)
	config := kubeconfig(t, f.URL())
	for hpa, want := range map[string][2]string{
		"keep":        {"keep (HPA)", ""},
		"scale-point": {"3 → 650m", "set the CPU target of HPA feature to 60 %"},
		"ignore":      {"3 → 650m", ""},
	} {
		r := runCommand(t.Context(), "--kubeconfig", config, "--source", "cluster", "--hpa", hpa, "--sort", "name", "-n", "ml")
		if r.code != 0 || !strings.Contains(r.out, want[0]) || !strings.Contains(r.out, want[1]) || want[1] == "" && strings.Contains(r.out, "set the") {
			t.Errorf("--hpa %s: got exit code %d, error %s and report\n%s", hpa, r.code, r.errs, r.out)
		}
	}
}

func TestRecommend_prices_comeFromTheFileOrAreAssumed(t *testing.T) {
	f := shop(t)
	config := kubeconfig(t, f.URL())
	path := filepath.Join(t.TempDir(), "prices.yaml")
	text := "currency: EUR\ndefault: {core: 0.0316, gib: 0.00424}\nnodes:\n- {match: {karpenter.sh/capacity-type: spot}, factor: 0.35}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := 0.35 * 730 * (2*2.35*0.0316 + 2*6*0.00424) // two pods: 3 → 0.65 cores, and 8 → 2 GiB, on spot nodes
	r := runCommand(t.Context(), "--kubeconfig", config, "--source", "cluster", "--prices", path, "deploy/feature-store", "-o", "csv")
	if r.code != 0 || !strings.Contains(r.out, fmt.Sprintf(",%.2f,EUR,", want)) {
		t.Errorf("file: got error %s and\n%s\nwant %.2f", r.errs, r.out, want)
	}
	r = runCommand(t.Context(), "--kubeconfig", config, "--source", "cluster")
	if !strings.Contains(r.out, "Prices are assumed: 0.0316 a core-hour") || !strings.Contains(r.out, "assumed USD") {
		t.Errorf("assumed: got\n%s", r.out)
	}
	r = runCommand(t.Context(), "--kubeconfig", config, "--source", "cluster", "--no-money")
	if strings.Contains(r.out, "USD") || !strings.Contains(r.out, "FREED") {
		t.Errorf("no money: got\n%s", r.out)
	}
	r = runCommand(t.Context(), "--kubeconfig", config, "--source", "cluster", "--prices", filepath.Join(t.TempDir(), "none.yaml"))
	if r.code != 1 || !strings.Contains(r.errs, "read prices") {
		t.Errorf("no file: got exit code %d and error %s", r.code, r.errs)
	}
	openCost := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value := "0.004"
		if strings.Contains(r.FormValue("query"), "node_cpu_hourly_cost") {
			value = "0.05"
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"node-0"},"value":[1,%q]}]}}`, value)
	}))
	want = 730 * (2*2.35*0.05 + 2*6*0.004)
	r = runCommand(t.Context(), "--kubeconfig", config, "--source", "cluster", "--opencost", openCost, "deploy/feature-store", "-o", "csv")
	if r.code != 0 || !strings.Contains(r.out, fmt.Sprintf(",%.2f,", want)) {
		t.Errorf("OpenCost: got error %s and\n%s\nwant %.2f", r.errs, r.out, want)
	}
	r = runCommand(t.Context(), "--kubeconfig", config, "--source", "cluster", "--group-by", "namespace")
	if r.code != 0 || !strings.Contains(r.out, "NAMESPACE") || !strings.Contains(r.out, "shop") {
		t.Errorf("by namespace: got\n%s", r.out)
	}
	r = runCommand(t.Context(), "--kubeconfig", config, "--source", "cluster", "--group-by", "label=app")
	if r.code != 0 || !strings.Contains(r.out, "APP") || !strings.Contains(r.out, "\nfeature-store ") {
		t.Errorf("by label: got\n%s", r.out)
	}
	r = runCommand(t.Context(), "--kubeconfig", config, "--source", "cluster", "--group-by", "pool")
	if r.code != 0 || !strings.Contains(r.out, "POOL") || !strings.Contains(r.out, "general") {
		t.Errorf("by pool: got\n%s", r.out)
	}
}
