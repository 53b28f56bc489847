// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/test/kubetest"
)

func TestMatchers_clusterLabel_isQuoted(t *testing.T) {
	for label, want := range map[string]string{"": "", "cluster=prod": `cluster="prod"`, `c=a"b`: `c="a\"b"`} {
		var c Config
		c.ClusterLabel = label
		if got := strings.Join(c.Matchers(), ","); got != want {
			t.Errorf("--cluster-label=%s: got %s, want %s", label, got, want)
		}
	}
	if got := (&Config{}).Matchers(); got != nil {
		t.Errorf("got %q without --cluster-label, want none", got)
	}
}

func TestValidate_prometheusHeader_needsNameAndOneLine(t *testing.T) {
	for header, valid := range map[string]bool{
		"X-Scope-OrgID: shop": true, "X:": true, "X": false, ": shop": false, " : shop": false, "X: a\r\nY: b": false, "X: a\nY: b": false,
	} {
		c := Defaults()
		c.Headers = []string{header}
		if err := c.Validate(); (err == nil) != valid {
			t.Errorf("--prometheus-header=%q: error %v, valid should be %t", header, err, valid)
		}
	}
}

func TestCapacity_prometheusCannotBeLocated_errorNamesTheFlag(t *testing.T) {
	const failure = `{"kind":"Status","status":"Failure","code":500,"reason":"InternalError","message":"broken"}`
	for name, tt := range map[string]struct{ reply, want string }{
		"no Service":              {"", "was found in the cluster"},
		"Services cannot be read": {"GET /api/v1/services", "search for Prometheus: "},
	} {
		f := threeNodes(t)
		if tt.reply != "" {
			f.Reply(tt.reply, http.StatusInternalServerError, failure)
		}
		r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--source", "prometheus")
		if r.code != 1 || !strings.Contains(r.errs, tt.want) || strings.Count(r.errs, "set --prometheus") != 1 {
			t.Errorf("%s: exit code %d and %s, want 1, %q and the flag once", name, r.code, r.errs, tt.want)
		}
	}
	t.Setenv(process.PrometheusVariable, "localhost:9090")
	if _, err := new(Config).Given(); err == nil || !strings.Contains(err.Error(), "PROMETHEUS_URL must be a URL") {
		t.Errorf("the variable is no URL: error %v", err)
	}
}

// Through the API server, queries are sent as GET: a POST is a write there.
func TestCapacity_prometheusIsFoundInTheCluster_isReadThroughTheAPIServer(t *testing.T) {
	f := threeNodes(t)
	f.Apply("/api/v1/services", `{"metadata":{"namespace":"monitoring","name":"prometheus-k8s","labels":{"app.kubernetes.io/name":"prometheus","app.kubernetes.io/component":"prometheus"}},
		"spec":{"ports":[{"name":"web","port":9090}]}}`)
	at := time.Now().Add(-25 * time.Hour).Unix()
	f.Reply("GET /api/v1/namespaces/monitoring/services/http:prometheus-k8s:9090/proxy/api/v1/query_range", http.StatusOK,
		fmt.Sprintf(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"node":"n1"},"values":[[%d,"8"]]}]}}`, at))
	r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--source", "prometheus", "-o", "json")
	if !strings.Contains(r.out, `"source": "Prometheus monitoring/prometheus-k8s"`) || r.errs != "" {
		t.Errorf("exit code %d, %s\n%s\n%q", r.code, r.errs, r.out, f.Requests())
	}
}

func TestCapacity_tokenFileIsMissing_isAnError(t *testing.T) {
	f := threeNodes(t)
	url, _ := prometheus(t, 40, 0)
	if r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", url, "--prometheus-token-file", "/does/not/exist"); r.code != 1 || !strings.Contains(r.errs, "/does/not/exist") {
		t.Errorf("exit code %d and %s, want 1 and the path", r.code, r.errs)
	}
}

func TestCapacity_clusterWithoutNodes_isAnError(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	if r := run(t, "--kubeconfig", kubeconfig(t, f.URL())); r.code != 1 || !strings.Contains(r.errs, "the cluster has no nodes") {
		t.Errorf("exit code %d, %s", r.code, r.errs)
	}
}

func TestCapacity_planIsOutdatedAndPrometheusIsRead_reportHasNoAge(t *testing.T) {
	f := threeNodes(t)
	applyPlan(t, f, 20, 400, time.Now().Add(-48*time.Hour))
	url, _ := prometheus(t, 40, 0)
	r := run(t, "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", url)
	if r.code != 0 || strings.Contains(r.out, "was last written on") {
		t.Errorf("exit code %d, %s\n%s", r.code, r.errs, r.out)
	}
}
