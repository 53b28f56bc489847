// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommend

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/prom/survey"
)

// What a call without flags means: all formats of scripts and all numbers of docs/recommend.md rely on it.
func TestFlags_noneIsSet_defaultsAreTheDocumentedOnes(t *testing.T) {
	flags := NewCommand(process.Streams{}).Flags()
	for name, want := range map[string]string{
		"source": "auto", "history": "14d", "for": "15m0s", "profile": "[]", "limits": "keep", "hpa": "keep", "output": "table", "group-by": "workload", "sort": "risk",
		"top": "30", "min-saving": "0", "load": "gentle", "no-cache": "false", "quiet": "false", "fail-on": "", "fail-saving": "0", "prices": "", "no-money": "false",
	} {
		if f := flags.Lookup(name); f == nil || f.DefValue != want {
			t.Errorf("--%s is %+v, want the default %q", name, f, want)
		}
	}
}

func TestFlags_limitsTopAndMinSaving_changeTheReport(t *testing.T) {
	f := shop(t)
	config := kubeconfig(t, f.URL())
	for args, want := range map[string]string{
		"--limits keep -o patch":         `"limits":{"memory":"1280Mi"}`, // never below the request
		"--limits none -o patch":         `"limits":{"memory":null}`,
		"--limits memory-only -o patch":  `"limits":{"memory":"1280Mi"}`,
		"--limits proportional -o patch": `"limits":{"memory":"1280Mi"}`,
		"--sort name --top 1":            "…2 more (--top 0 lists them)",
		"--sort money --top 0":           "BY MONEY",
		"--min-saving 1000000":           "1 container without risk and waste",
		"--context prod-eu":              "prod-eu · ",
	} {
		r := runCommand(t.Context(), append([]string{"--kubeconfig", config, "--source", "cluster"}, strings.Fields(args)...)...)
		if r.code != 0 || !strings.Contains(r.out, want) {
			t.Errorf("%s: got exit code %d, error %s and\n%s\nwant %s", args, r.code, r.errs, r.out, want)
		}
	}
	if r := runCommand(t.Context(), "--kubeconfig", config, "--context", "other"); r.code != 1 || !strings.Contains(r.errs, `the kubeconfig has no context "other"`) {
		t.Errorf("unknown context: got exit code %d and error %s", r.code, r.errs)
	}
}

func TestFlags_tokenFileAndImpersonation_areSent(t *testing.T) {
	f := shop(t)
	p := &prometheus{pods: recordedPods()}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	users := map[string]bool{}
	proxy := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		users[r.Header.Get("Impersonate-User")] = true
		w.WriteHeader(http.StatusUnauthorized)
	}))
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", serve(t, p), "--prometheus-token-file", token, "--no-cache", "--history", "1d", "--load", "normal")
	if r.code != 0 || p.headers.Get("Authorization") != "Bearer secret" {
		t.Errorf("got exit code %d, error %s and headers %v", r.code, r.errs, p.headers)
	}
	runCommand(t.Context(), "--kubeconfig", kubeconfig(t, proxy), "--as", "jane")
	if len(users) != 1 || !users["jane"] {
		t.Errorf("got users %v", users)
	}
}

// A loaded Prometheus gets one query at a time, unless the user permits two.
func TestFlags_load_limitsParallelQueries(t *testing.T) {
	config := kubeconfig(t, shop(t).URL())
	for load, want := range map[string]int{"gentle": 1, "normal": 2} {
		var mu sync.Mutex
		running, most := 0, 0
		second := make(chan struct{}) // closed when two queries run; without it, the first answers might come before the second query
		meets := sync.OnceFunc(func() { close(second) })
		p := &prometheus{pods: recordedPods()}
		address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			running++
			most = max(most, running)
			if running == 2 {
				meets()
			}
			mu.Unlock()
			if want == 2 && strings.HasSuffix(r.URL.Path, "query_range") {
				select {
				case <-second:
				case <-time.After(10 * time.Second):
				}
			}
			answer := httptest.NewRecorder() // the client may send its next query as soon as it has the answer
			p.ServeHTTP(answer, r)
			mu.Lock()
			running--
			mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer.Body.Bytes())
		}))
		r := runCommand(t.Context(), "--kubeconfig", config, "--prometheus", address, "--no-cache", "--history", "3d", "--load", load)
		if r.code != 0 || most != want {
			t.Errorf("--load %s: exit code %d, %d queries at a time, want %d: %s", load, r.code, most, want, r.errs)
		}
	}
}

func TestRecommend_prometheusAddressInEnvironment_isUsed(t *testing.T) {
	f := shop(t)
	p := &prometheus{pods: recordedPods()}
	t.Setenv(process.PrometheusVariable, serve(t, p))
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--no-cache", "--history", "1d", "-o", "json")
	if r.code != 0 || !strings.Contains(r.out, `"source": "Prometheus http://127.0.0.1`) {
		t.Errorf("got exit code %d, error %s and\n%s", r.code, r.errs, r.out)
	}
	// Before it comes the flag, and after it what is found in the cluster.
	t.Setenv(process.PrometheusVariable, "http://unused.invalid")
	r = runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--prometheus", serve(t, p), "--no-cache", "--history", "1d", "-o", "json")
	if r.code != 0 || !strings.Contains(r.out, `"source": "Prometheus http://127.0.0.1`) {
		t.Errorf("with the flag: got exit code %d, error %s and\n%s", r.code, r.errs, r.out)
	}
	for _, namespace := range []string{"monitoring", "other"} {
		f.Apply("/api/v1/services", fmt.Sprintf(`{"metadata":{"namespace":%q,"name":"prometheus-k8s","labels":{"app.kubernetes.io/name":"prometheus","app.kubernetes.io/component":"prometheus"}},
			"spec":{"ports":[{"name":"web","port":9090,"protocol":"TCP"}]}}`, namespace))
	}
	t.Setenv(process.PrometheusVariable, serve(t, p))
	if r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--no-cache", "--history", "1d"); r.code != 0 {
		t.Errorf("with two in the cluster: got exit code %d and error %s", r.code, r.errs)
	}
	t.Setenv(process.PrometheusVariable, "localhost:9090")
	if r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL())); r.code != 1 || !strings.Contains(r.errs, process.PrometheusVariable+" must be a URL") {
		t.Errorf("got exit code %d and error %s", r.code, r.errs)
	}
}

func TestLocate_foundPrometheusIsUnreadable_otherSourceIsUsed(t *testing.T) {
	f := shop(t)
	f.Apply("/api/v1/services", `{"metadata":{"namespace":"monitoring","name":"prometheus-k8s","labels":{"app.kubernetes.io/name":"prometheus","app.kubernetes.io/component":"prometheus"}},
		"spec":{"ports":[{"name":"web","port":9090,"protocol":"TCP"}]}}`)
	r := runCommand(t.Context(), "--kubeconfig", kubeconfig(t, f.URL()), "--no-cache")
	if r.code != 0 || !strings.Contains(r.out, "VPA objects") || !strings.Contains(r.out, "monitoring/prometheus-k8s was found, but cannot be read") {
		t.Errorf("got exit code %d, error %s and\n%s", r.code, r.errs, r.out)
	}
}

func TestProgress_outputs_isShownOnTerminalOnly(t *testing.T) {
	for _, tt := range []struct{ terminal, quiet, want bool }{{true, false, true}, {true, true, false}, {false, false, false}} {
		synctest.Test(t, func(t *testing.T) {
			var errs bytes.Buffer
			c := Defaults()
			c.Quiet = tt.quiet
			j := job{Config: c, streams: process.Streams{Err: &errs, Terminal: tt.terminal}}
			bar := j.newProgress(true)
			for i := range 38 {
				time.Sleep(time.Second)
				bar.show(float64(i+1)/100, "70 of 182 queries · shop\x1b[2J, 9 Nov")
			}
			shown := errs.String()
			bar.clear()
			got := errs.String()
			lines := strings.Split(shown, "\r")
			line := strings.TrimSpace(lines[len(lines)-1])
			if shown == "" {
				line = ""
			}
			want, removed := "", ""
			if tt.want {
				want = "38% [======>.............]  [37s:1m2s] 70 of 182 queries · shop?[2J, 9 Nov\x1b[0K"
				removed = "\x1b[2K\r"
			}
			if line != want || got != shown+removed {
				t.Errorf("%+v: got %q and %q, want %q and %q", tt, line, got[len(shown):], want, removed)
			}
		})
	}
	p := survey.Progress{Done: 70, Planned: 182, Namespaces: []string{"shop", "web"}, Day: time.Date(2026, 11, 9, 0, 0, 0, 0, time.UTC), WaitsUntil: time.Unix(10, 0)}
	if got, want := progressText(&p, time.Unix(5, 0)), "70 of 182 queries · shop and 1 more, 9 Nov · Prometheus is busy, waiting"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMissing_manyGaps_areBounded(t *testing.T) {
	var gaps []survey.Gap
	for i := range 15 {
		gaps = append(gaps, survey.Gap{Namespace: fmt.Sprintf("n%d", i), From: time.Unix(0, 0), To: time.Unix(3600, 0), Err: &survey.Error{Cause: survey.Overloaded}})
	}
	got := missing(gaps)
	if len(got) != mostGaps+1 || got[0] != "CPU usage of namespace n0 from 1 Jan 00:00 to 1 Jan 01:00: Prometheus is overloaded or not available" || got[mostGaps] != "5 more gaps" {
		t.Errorf("got %q", got)
	}
}

func TestRecommend_flagsOfAnotherSource_areNoted(t *testing.T) {
	config := kubeconfig(t, shop(t).URL())
	prometheus := serve(t, &prometheus{pods: recordedPods()})
	for args, want := range map[string][]string{
		"--source cluster --for 30m --history 3d": {"--for has no effect, because usage is from VPA objects.", "--history has no effect, because usage is from VPA objects."},
		"--source cluster":                        nil,
		"--history 1d --prometheus " + prometheus: nil,
		"--for 30m --prometheus " + prometheus:    {"--for has no effect, because usage is from "},
	} {
		r := runCommand(t.Context(), append([]string{"--kubeconfig", config, "--no-cache"}, strings.Fields(args)...)...)
		for _, w := range want {
			if !strings.Contains(r.out, w) {
				t.Errorf("%s: %q is not in the report\n%s", args, w, r.out)
			}
		}
		if want == nil && strings.Contains(r.out, "no effect") {
			t.Errorf("%s: the report has a note about a flag that has an effect:\n%s", args, r.out)
		}
	}
}
