// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/capacity"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/capacityplan"
	"podfit.dev/podfit/test/kubetest"
)

const (
	nodesPath = "/api/v1/nodes"
	plansPath = "/apis/podfit.dev/v1alpha1/capacityplans"
)

// kubeconfig writes a kubeconfig for an API server and returns its path.
func kubeconfig(t testing.TB, url string) string {
	t.Helper()
	return kubetest.Context{Name: "prod"}.Kubeconfig(t, url)
}

// result is what a run of the command wrote.
type result struct {
	out, errs string
	code      int
}

// run runs podfit capacity.
func run(t testing.TB, args ...string) result {
	t.Helper()
	t.Setenv(process.PrometheusVariable, "")
	var out bytes.Buffer
	cmd := NewCommand(process.Streams{Out: &out, Err: &out})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	r := result{out: out.String()}
	var exit process.ExitError
	switch {
	case err == nil:
		return r
	case errors.As(err, new(process.UsageError)):
		r.code = 2
	case errors.As(err, &exit):
		r.code = exit.Code
	default:
		r.code = 1
	}
	r.errs = err.Error()
	return r
}

// threeNodes is the cluster of the specification: three nodes of 64 cores, and services that request 154 cores, of which 71 could be given back
// by 14 of them.
func threeNodes(t testing.TB) *kubetest.FakeAPI {
	f := kubetest.NewFakeAPI(t)
	for i := range 3 {
		f.Apply(nodesPath, fmt.Sprintf(`{"metadata":{"name":"n%d","labels":{"node-role.kubernetes.io/worker":""}},"status":{"capacity":{"cpu":"64","memory":"256Gi"},
			"allocatable":{"cpu":"63","memory":"250Gi"},"conditions":[{"type":"Ready","status":"True"}]}}`, i))
	}
	for i := range 22 {
		name, pods := fmt.Sprintf("svc-%02d", i), 7
		for k := range pods {
			f.Apply(kubetest.PodsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"%s-%d","uid":"%s-%d","creationTimestamp":"2026-11-01T00:00:00Z","ownerReferences":[
				{"apiVersion":"apps/v1","kind":"StatefulSet","name":%q,"uid":"u","controller":true}]},
				"spec":{"nodeName":"n%d","containers":[{"name":"app","resources":{"requests":{"cpu":"1","memory":"2Gi"}}}]},"status":{"phase":"Running"}}`,
				name, k, name, k, name, (i+k)%3))
		}
		f.Apply("/apis/apps/v1/statefulsets", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":{"replicas":%d}}`, name, pods))
		if i < 14 {
			f.Apply(kubetest.AutoscalersPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":"v","creationTimestamp":"2026-10-01T00:00:00Z"},
				"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":%q},"updatePolicy":{"updateMode":"Off"}},
				"status":{"recommendation":{"containerRecommendations":[{"containerName":"app","target":{"cpu":"275m","memory":"2Gi"}}]}}}`, name, name))
		}
	}
	return f
}

// applyPlan stores a plan whose history of CPU ends with the present requests and grows by some millicores per day.
func applyPlan(t testing.TB, f *kubetest.FakeAPI, days int, perDay int64, updated time.Time) {
	t.Helper()
	now := time.Now()
	h := &capacity.History{}
	for i := range days {
		day := capacity.DayOf(now) - capacity.Day(days-1-i)
		noise := int64(i*7919%5-2) * 150
		h.Days = append(h.Days, capacity.Record{
			Day: day, Requested: cluster.Amounts(154_000-perDay*int64(days-1-i)+noise, 308<<30), Capacity: cluster.Amounts(192_000, 768<<30), Used: cluster.Amounts(33_000, 90<<30),
		})
	}
	plan := capacity.Assess(now, []capacity.Pool{{Name: "worker", Nodes: 3}}, capacity.Unplaced{}, map[string]*capacity.History{"worker": h}, capacity.Defaults())
	status := capacityplan.Status(&plan, map[string]*capacity.History{"worker": h}, nil)
	data, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	object["updated"] = updated.UTC().Format(time.RFC3339)
	data, err = json.Marshal(map[string]any{"metadata": map[string]any{"name": "cluster", "namespace": ""}, "spec": map[string]any{"leadTimeDays": 14}, "status": object})
	if err != nil {
		t.Fatal(err)
	}
	f.Apply(plansPath, string(data))
}

func TestCapacity_sceneOfTheSpecification_printsDatesAndAdvice(t *testing.T) {
	f := threeNodes(t)
	applyPlan(t, f, 60, 900, time.Now())
	config := kubeconfig(t, f.URL())
	r := run(t, "--kubeconfig", config)
	if r.code != 0 {
		t.Fatalf("exit code %d: %s", r.code, r.errs)
	}
	for _, want := range []string{
		"prod · 1 pool, 3 nodes, 154 pods · history of the CapacityPlan", "154 of 192 (80 %)", "since ",
		"do not order: 14 workloads could give back 71 cores, which leaves 43 %", "Cannot lose a node: 154 cores of cpu are requested, and 128 cores remain",
		"8 workloads have no recommendation", "The largest pod that still fits:", "not within 90 d",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing in\n%s", want, r.out)
		}
	}
	for _, method := range f.Requests() {
		if !strings.HasPrefix(method, "GET") {
			t.Errorf("the command sent %s", method)
		}
	}
	var doc struct {
		Kind  string
		Pools []struct {
			Name string
			CPU  struct {
				Requested, Capacity, Recoverable float64
				Advice                           string
				Thresholds                       []struct {
					Percent         int
					State, Earliest string
				}
			}
		}
	}
	r = run(t, "--kubeconfig", config, "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || len(doc.Pools) != 1 {
		t.Fatalf("%v in %s", err, r.out)
	}
	if cpu := doc.Pools[0].CPU; cpu.Requested != 154 || cpu.Capacity != 192 || cpu.Recoverable < 71 || cpu.Recoverable > 71.1 || cpu.Advice != "GiveBack" ||
		cpu.Thresholds[0].State != "Above" || cpu.Thresholds[1].State != "Ahead" || cpu.Thresholds[1].Earliest == "" {
		t.Errorf("JSON: %+v", cpu)
	}
	r = run(t, "--kubeconfig", config, "-o", "html")
	if !strings.Contains(r.out, "<!doctype html>") || !strings.Contains(r.out, "14 workloads could give back 71 cores") || !strings.Contains(r.out, "<svg") || strings.Contains(r.out, "<script") {
		t.Errorf("HTML: %s", r.out)
	}
}

func TestCapacity_fiveDays_notEnoughHistory(t *testing.T) {
	f := threeNodes(t)
	applyPlan(t, f, 5, 1500, time.Now())
	r := run(t, "--kubeconfig", kubeconfig(t, f.URL()))
	if r.code != 0 || !strings.Contains(r.out, "not enough history: a forecast needs 14 days") || !strings.Contains(r.out, "not known") {
		t.Errorf("exit code %d, %s\n%s", r.code, r.errs, r.out)
	}
}

func TestCapacity_noPlan_saysHowToGetAHistory(t *testing.T) {
	for name, body := range map[string]string{"no object": "", "no CRD": "404 page not found"} {
		f := threeNodes(t)
		if body != "" {
			f.Reply("GET "+plansPath+"/cluster", http.StatusNotFound, body)
		}
		r := run(t, "--kubeconfig", kubeconfig(t, f.URL()))
		if r.code != 0 || !strings.Contains(r.out, "There is no CapacityPlan, so there is no history.") || !strings.Contains(r.out, "154 of 192 (80 %)") {
			t.Errorf("%s: exit code %d, %s\n%s", name, r.code, r.errs, r.out)
		}
	}
}

func TestCapacity_planIsOutdated_reportHasItsAge(t *testing.T) {
	f := threeNodes(t)
	applyPlan(t, f, 30, 100, time.Now().Add(-3*time.Hour))
	if r := run(t, "--kubeconfig", kubeconfig(t, f.URL())); !strings.Contains(r.out, "The CapacityPlan was last written on") {
		t.Errorf("output %s", r.out)
	}
}

func TestCapacity_failOn_exitsWithFour(t *testing.T) {
	f := threeNodes(t)
	applyPlan(t, f, 60, 900, time.Now())
	config := kubeconfig(t, f.URL())
	for value, want := range map[string]string{
		"above": "cpu of pool worker is above a threshold", "node": "cpu of pool worker does not fit without the largest node",
	} {
		if r := run(t, "--kubeconfig", config, "--fail-on", value); r.code != 4 || !strings.Contains(r.errs, want) {
			t.Errorf("%s: exit code %d, %s", value, r.code, r.errs)
		}
	}
	if r := run(t, "--kubeconfig", config, "--fail-on", "order", "--lead-time", "60"); r.code != 4 || !strings.Contains(r.errs, "cpu of pool worker must be ordered now") {
		t.Errorf("order: exit code %d, %s", r.code, r.errs)
	}
	if r := run(t, "--kubeconfig", config, "--fail-on", "forecast"); r.code != 0 {
		t.Errorf("forecast: exit code %d, %s", r.code, r.errs)
	}
}

func TestCapacity_wrongCalls_exitWithTwoAndARemedy(t *testing.T) {
	f := threeNodes(t)
	config := kubeconfig(t, f.URL())
	for _, c := range []struct{ args, want string }{
		{"--source plna", "did you mean plan?"},
		{"-o yaml", "--output must be one of table, json, html"},
		{"--fail-on never", "--fail-on must be one of"},
		{"--lead-time -5", "--lead-time must be between 0 and 730"},
		{"--prometheus localhost:9090", "--prometheus must be a URL"},
		{"--prometheus http://x --source plan", "cannot both be set"},
		{"--cluster-label prod", "--cluster-label must be a label and a value"},
		{"--prometheus-header x", "--prometheus-header must be"},
		{"worker", "takes no arguments"},
		{"--pool nope", `there is no pool "nope"; the pools are worker`},
	} {
		if r := run(t, append([]string{"--kubeconfig", config}, strings.Fields(c.args)...)...); r.code != 2 || !strings.Contains(r.errs, c.want) {
			t.Errorf("%s: exit code %d, %s", c.args, r.code, r.errs)
		}
	}
}

func TestCapacity_noRights_areNamed(t *testing.T) {
	const forbidden = `{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden"}`
	for path, want := range map[string]struct {
		code int
		text string
	}{
		nodesPath:                {1, "grant list on nodes"},
		kubetest.PodsPath:        {1, "grant this permission"},
		plansPath + "/cluster":   {3, "grant get on capacityplans.podfit.dev"},
		kubetest.AutoscalersPath: {3, "no right to list verticalpodautoscalers"},
	} {
		f := threeNodes(t)
		f.Reply("GET "+path, http.StatusForbidden, forbidden)
		if r := run(t, "--kubeconfig", kubeconfig(t, f.URL())); r.code != want.code || !strings.Contains(r.errs, want.text) {
			t.Errorf("%s: exit code %d, %s", path, r.code, r.errs)
		}
	}
}

// Without the right to read the CapacityPlan the report has what is known now, and no date.
func TestCapacity_planForbidden_reportHasNoDates(t *testing.T) {
	f := threeNodes(t)
	applyPlan(t, f, 60, 400, time.Now())
	config := kubeconfig(t, f.URL())
	with := run(t, "--kubeconfig", config, "-o", "json")
	f.Reply("GET "+plansPath+"/cluster", http.StatusForbidden, `{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":"forbidden"}`)
	without := run(t, "--kubeconfig", config, "-o", "json")
	if !strings.Contains(with.out, `"orderBy"`) || strings.Contains(without.out, `"orderBy"`) || !strings.Contains(without.out, `"worker"`) || without.code != 3 {
		t.Errorf("exit code %d, with the right: %t, without: %s %s", without.code, strings.Contains(with.out, `"orderBy"`), without.out, without.errs)
	}
}

func TestCapacity_leadTimeAndPool_changeTheReport(t *testing.T) {
	f := threeNodes(t)
	applyPlan(t, f, 60, 400, time.Now())
	f.Apply(nodesPath, `{"metadata":{"name":"m0","labels":{"karpenter.sh/nodepool":"blue"}},"status":{"allocatable":{"cpu":"8","memory":"32Gi"},"conditions":[{"type":"Ready","status":"True"}]}}`)
	config := kubeconfig(t, f.URL())
	short, long := run(t, "--kubeconfig", config, "--pool", "worker", "--lead-time", "0", "-o", "json"), run(t, "--kubeconfig", config, "--pool", "worker", "--lead-time", "300", "-o", "json")
	order := func(r result) time.Time {
		_, rest, _ := strings.Cut(r.out, `"orderBy": "`)
		day, err := time.Parse(time.DateOnly, rest[:min(len(rest), 10)])
		if err != nil {
			t.Fatalf("%v in %s %s", err, r.out, r.errs)
		}
		return day
	}
	if days := order(short).Sub(order(long)).Hours() / 24; days != 300 {
		t.Errorf("the lead time changes the order-by date by %v days, want 300", days)
	}
	if strings.Contains(short.out, "blue") {
		t.Error("--pool shows another pool")
	}
	if r := run(t, "--kubeconfig", config); !strings.Contains(r.out, "blue") || !strings.Contains(r.out, "2 pools") {
		t.Errorf("output %s", r.out)
	}
}

// A pool of a NodePool of Karpenter, and one of a group of the cluster autoscaler.
func TestCapacity_groupsOfNodes_poolsCanGrow(t *testing.T) {
	f := threeNodes(t)
	f.Apply(nodesPath, `{"metadata":{"name":"m0","labels":{"karpenter.sh/nodepool":"blue"}},"status":{"capacity":{"cpu":"8","memory":"32Gi"},"allocatable":{"cpu":"8","memory":"32Gi"},"conditions":[{"type":"Ready","status":"True"}]}}`)
	f.Apply(nodesPath, `{"metadata":{"name":"aks-web-1-vmss000000","labels":{"agentpool":"web"}},"status":{"capacity":{"cpu":"4","memory":"16Gi"},"allocatable":{"cpu":"4","memory":"16Gi"},"conditions":[{"type":"Ready","status":"True"}]}}`)
	f.Reply("GET /apis/karpenter.sh/v1/nodepools", 200, `{"kind":"NodePoolList","items":[{"metadata":{"name":"blue"},"spec":{"limits":{"cpu":"30"}},"status":{"resources":{"cpu":"8"}}}]}`)
	status := fmt.Sprintf("time: %q\nnodeGroups:\n- name: aks-web-1-vmss\n  health:\n    cloudProviderTarget: 1\n    maxSize: 1\n- name: asg\n  health:\n    cloudProviderTarget: 1\n    maxSize: 9\n  scaleUp:\n    status: Backoff\n", time.Now().UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST"))
	object, err := json.Marshal(map[string]any{"kind": "ConfigMap", "data": map[string]string{"status": status}})
	if err != nil {
		t.Fatal(err)
	}
	f.Reply("GET /api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status", 200, string(object))
	config := kubeconfig(t, f.URL())
	for pool, want := range map[string]string{
		"blue": "The groups of its present nodes can grow by 2 nodes (16 cores, 64 GiB). It reaches 100 % of that: cpu not known, memory not known.",
		"web":  "No node can be added to the groups of its present nodes: they are at their maximum.", "worker": "",
	} {
		r := run(t, "--kubeconfig", config, "--pool", pool)
		says := strings.Contains(r.out, "can grow by") || strings.Contains(r.out, "can be added")
		if r.code != 0 || says != (want != "") || !strings.Contains(r.out, want) {
			t.Errorf("%s: exit code %d\n%s", pool, r.code, r.out)
		}
		if !strings.Contains(r.out, "The cluster autoscaler adds no nodes for now to asg, because a scale-up failed.") {
			t.Errorf("%s: the back-off is missing in\n%s", pool, r.out)
		}
	}
	if r := run(t, "--kubeconfig", config, "-o", "json"); r.code != 0 || !strings.Contains(strings.Join(strings.Fields(r.out), ""), `"nodeGroupsInBackOff":["asg"]`) {
		t.Errorf("exit code %d\n%s", r.code, r.out)
	}
}

// Without the right to read groups of nodes, or with a status that is too old, the report is complete and says what is not known.
func TestCapacity_groupsOfNodesCannotBeUsed_isANote(t *testing.T) {
	const (
		forbidden  = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"nodepools.karpenter.sh is forbidden: User \"jo\" cannot list it"}`
		statusPath = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
		note       = "How many nodes can be added may not be known, because "
	)
	for path, c := range map[string]struct {
		code  int
		reply string
		want  string
	}{
		"/apis/karpenter.sh/v1/nodepools":                   {http.StatusForbidden, forbidden, `cannot be used: nodepools.karpenter.sh is forbidden: User "jo" cannot list it.`},
		"/apis/cluster.x-k8s.io/v1beta1/machinedeployments": {http.StatusForbidden, forbidden, "cannot be used: "},
		statusPath:       {http.StatusForbidden, forbidden, "cannot be used: "},
		statusPath + "?": {http.StatusOK, `{"data":{"status":"time: 2020-01-01 00:00:00 +0000 UTC"}}`, "the status must be newer than 15m0s"},
		"/no/group":      {http.StatusForbidden, forbidden, ""},
	} {
		f := threeNodes(t)
		applyPlan(t, f, 60, 400, time.Now())
		f.Reply("GET "+strings.TrimSuffix(path, "?"), c.code, c.reply)
		config := kubeconfig(t, f.URL())
		for _, format := range []string{"table", "json"} {
			r := run(t, "--kubeconfig", config, "-o", format)
			text := strings.ReplaceAll(strings.Join(strings.Fields(r.out), " "), `\"`, `"`)
			if says := strings.Contains(text, note+strings.TrimSuffix(path, "?")+" "); r.code != 0 || says != (c.want != "") || !strings.Contains(text, c.want) {
				t.Errorf("%s as %s: exit code %d %s\n%s", path, format, r.code, r.errs, text)
			}
		}
	}
}

// prometheus answers range queries about requests and capacity with 40 days of growth.
func prometheus(t *testing.T, days int, status int) (url string, queries *[]string) {
	queries = new([]string)
	now := time.Now()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		query := r.Form.Get("query")
		*queries = append(*queries, query)
		if status != 0 {
			w.WriteHeader(status)
			fmt.Fprint(w, `{"status":"error","errorType":"internal","error":"broken"}`)
			return
		}
		from, _ := strconv.ParseFloat(r.Form.Get("start"), 64)
		to, _ := strconv.ParseFloat(r.Form.Get("end"), 64)
		series := []any{}
		for node := range 3 {
			var values []any
			for at := from; at <= to; at += 3600 {
				age := (float64(now.Unix()) - at) / 86400
				if int(age) > days {
					continue
				}
				v := 64.0
				if strings.Contains(query, "kube_pod_container_resource_requests") {
					v = (154 - 0.8*age) / 3
				}
				if strings.Contains(query, `resource="memory"`) {
					v *= 2 << 30
				}
				values = append(values, []any{at, fmt.Sprint(v)})
			}
			if len(values) > 0 {
				series = append(series, map[string]any{"metric": map[string]string{"node": fmt.Sprintf("n%d", node)}, "values": values})
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": series}})
	}))
	t.Cleanup(srv.Close)
	return srv.URL, queries
}

func TestCapacity_prometheus_isTheHistory(t *testing.T) {
	f := threeNodes(t)
	url, queries := prometheus(t, 40, 0)
	r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", url, "--cluster-label", "cluster=prod", "-o", "json")
	if r.code != 0 || !strings.Contains(r.out, `"state": "Ahead"`) || !strings.Contains(r.out, `"source": "Prometheus `+url) {
		t.Fatalf("exit code %d, %s\n%s", r.code, r.errs, r.out)
	}
	for _, q := range *queries {
		if !strings.Contains(q, `cluster="prod"`) {
			t.Errorf("query without the label of the cluster: %s", q)
		}
	}
	if n := len(*queries); n > 4*14 {
		t.Errorf("%d queries", n)
	}
}

func TestCapacity_prometheusFails_isAnError(t *testing.T) {
	f := threeNodes(t)
	broken, _ := prometheus(t, 40, http.StatusInternalServerError)
	empty, _ := prometheus(t, -1000, 0)
	for url, want := range map[string]string{broken: "broken", empty: "it must scrape kube-state-metrics"} {
		if r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", url); r.code != 1 || !strings.Contains(r.errs, want) {
			t.Errorf("exit code %d, %s", r.code, r.errs)
		}
	}
}
