// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/test/e2e/bed"
)

// The namespaces of tests of viewers. The tests write the recommendations and the stored usage in them.
const (
	strangersShop = "web-of-strangers"
	youngShop     = "web-of-a-young-shop"
)

// lackingRight returns a role in a namespace for all that the page reads there, but for some resources, and its account.
func lackingRight(account string, lacking ...string) string {
	rules := map[string][]string{
		`"", apps, batch, policy, autoscaling`: {"pods", "replicasets", "replicationcontrollers", "deployments", "daemonsets", "statefulsets", "jobs", "cronjobs", "limitranges", "resourcequotas", "events", "horizontalpodautoscalers", "poddisruptionbudgets"},
		"autoscaling.k8s.io":                   {"verticalpodautoscalers", "verticalpodautoscalercheckpoints"},
		"podfit.dev":                           {"usagehistories", "updatestates"},
		"metrics.k8s.io":                       {"pods.metrics"},
	}
	var out []string
	for group, resources := range rules {
		var names []string
		for _, r := range resources {
			if !strings.Contains(" "+strings.Join(lacking, " ")+" ", " "+r+" ") {
				names = append(names, strings.TrimSuffix(r, ".metrics"))
			}
		}
		if len(names) > 0 {
			out = append(out, fmt.Sprintf("- {apiGroups: [%s], resources: [%s], verbs: [get, list, watch]}", group, strings.Join(names, ", ")))
		}
	}
	return fmt.Sprintf(`apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s}
rules:
%[2]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: kube-system}]
`, account, strings.Join(out, "\n"))
}

// Good news, which needs evidence.
var (
	noRisk = regexp.MustCompile(`No workload of|No running container|No risk is known|No risk in|No request is above`)
	praise = regexp.MustCompile(`need no change|There is nothing to change|within the bounds|No risk is known`)
	back   = regexp.MustCompile(`Could be given back: ([0-9]|nothing)`) // an amount, or nothing
)

// TestWeb_rightIsMissing_unknownIsNoGoodNews has two workloads without a risk, one of which requests too much, with nine days of usage. The role
// view shows that. If a right is missing, or the usage is still read, no page has the good news, the amount or a patch, but it says what is not
// known, and why.
func TestWeb_rightIsMissing_unknownIsNoGoodNews(t *testing.T) {
	t.Parallel()
	p := newPlace(t, strangersShop)
	p.apply(strings.ReplaceAll(viewers, "web-view", "stranger-view"))
	for name, cpu := range map[string]string{"fine": "100m", "large": "300m"} {
		w := spec{Name: name, Replicas: 1, CPU: "10m", Memory: "40Mi", Requests: "{cpu: " + cpu + ", memory: 64Mi}"}
		p.apply(w.manifest(), w.autoscaler("Off"), storedDays(name, "app", time.Now()))
		p.start(name, 1)
		p.adviseCPU(name, 95, 100, 110)
	}
	release := make(chan struct{})
	gate, err := p.NewGate(func(*http.Request) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	gate.Answer = func(r *http.Response) error { // the stored usage arrives when the test ends
		if strings.HasSuffix(r.Request.URL.Path, "/verticalpodautoscalercheckpoints") {
			<-release
		}
		return nil
	}
	t.Cleanup(func() { close(release) })
	for _, tt := range []struct {
		account string
		lacking []string
		gate    *bed.Gate
		says    string // "" if all is known
	}{
		{account: "stranger-view"},
		{"stranger-reads", nil, gate, "stored usage is still being read"},
		{"stranger-no-checkpoints", []string{"verticalpodautoscalercheckpoints"}, nil, "stored usage could not be read"},
		{"stranger-no-histories", []string{"usagehistories"}, nil, "stored usage could not be read"},
		{"stranger-no-pods", []string{"pods"}, nil, "podfit may not list pods"},
		{"stranger-no-use", []string{"pods.metrics"}, nil, "Current usage is not known"},
	} {
		t.Run(tt.account, func(t *testing.T) {
			p := &place{T: t, world: p.world, ns: p.ns}
			if tt.account != "stranger-view" {
				p.apply(lackingRight(tt.account, tt.lacking...))
			}
			kubeconfig, err := p.IdentityBehind(t.Context(), tt.account, tt.gate)
			if err != nil {
				t.Fatal(err)
			}
			address := p.servePage(kubeconfig, "-n", p.ns)
			var overview string
			p.eventually("the page says what it knows", time.Minute, func(ctx context.Context) error {
				got, err := titles(ctx, address)
				_, overview, _ = fetched(ctx, address, "/", "")
				switch {
				case err != nil:
					return err
				case tt.says == "" && got != "No workload of 2 is at risk | Could be given back: 0.2 cores":
					return fmt.Errorf("its titles are %q", got)
				case !strings.Contains(overview, tt.says):
					return fmt.Errorf("its titles are %q, and it does not say %q", got, tt.says)
				}
				return nil
			})
			pages := overview
			for _, name := range []string{"fine", "large"} {
				_, body, err := fetched(t.Context(), address, "/workloads/"+p.ns+"/Deployment/"+name, "")
				if err != nil {
					t.Error(err)
				}
				pages += body
			}
			isUse := tt.account == "stranger-no-use" // the stored usage is known, so requests are judged
			for what, found := range map[string]bool{
				"no risk": noRisk.MatchString(overview) && !strings.Contains(overview, "but their current usage is not known"),
				"praise":  praise.MatchString(pages) && !isUse, "an amount to give back": back.MatchString(overview) && !isUse,
				"a patch": strings.Contains(pages, `id="yaml"`) && !isUse, "a failing part": strings.Contains(pages, `"state failing"`),
			} {
				if found != (tt.says == "" && what != "a failing part") {
					t.Errorf("the page shows %s: %v\n%s", what, found, textOf(overview))
				}
			}
			for part, reason := range map[string]string{"webhook": "podfit may not read the webhook configuration", "updater": "so it is not known who leads"} {
				if !regexp.MustCompile(`<b>` + part + `</b> <span class="state unknown">unknown</span><br><span class="sub">[^<]*` + reason).MatchString(overview) {
					t.Errorf("%s is not unknown because %s", part, reason)
				}
			}
		})
	}
}

var tags = regexp.MustCompile(`(?s)<(script|style).*?</(script|style)>|<[^>]*>`)

// textOf returns the text of a page, for errors.
func textOf(page string) string {
	return strings.Join(strings.Fields(tags.ReplaceAllString(page, " ")), " ")
}

// TestWeb_pageWasIdle_leasesCountFromTheReading lets the page read leases that were renewed almost a minute ago, after which a part fails, and
// shows them when that minute has passed. The updater and the webhook work, so no page says that they fail or are unknown.
func TestWeb_pageWasIdle_leasesCountFromTheReading(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "web-idle")
	u, err := p.healthy(t.Context(), bed.Updater().Named("updater-web-idle").With("--leader-elect", "--vpa-object-namespace="+p.ns, "--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=5s"))
	if err != nil {
		t.Fatal(err)
	}
	p.endsWithTest(u)
	p.eventually("the updater leads", time.Minute, func(ctx context.Context) error {
		_, err := p.CoordinationV1().Leases(bed.Namespace).Get(ctx, "vpa-updater", metav1.GetOptions{})
		return err
	})
	const age = 50 * time.Second // a reading takes 10 s at most
	gate, err := p.NewGate(func(*http.Request) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	gate.Answer = func(r *http.Response) error { return olderLease(r, age) }
	p.apply(reader)
	kubeconfig, err := p.IdentityBehind(t.Context(), "explain-reader", gate)
	if err != nil {
		t.Fatal(err)
	}
	address := p.servePage(kubeconfig)
	health := func(ctx context.Context) (string, error) {
		_, body, err := fetched(ctx, address, "/", "")
		_, body, _ = strings.Cut(body, `<h2 id="health">`)
		return textOf(body), err
	}
	var began time.Time
	p.eventually("the page has read the leases", time.Minute, func(ctx context.Context) error {
		text, err := health(ctx)
		if err == nil && (!strings.Contains(text, "updater healthy") || !strings.Contains(text, "webhook healthy")) {
			err = fmt.Errorf("it says %s", text)
		}
		began = time.Now()
		return err
	})
	p.always("no part fails or is unknown", 14*time.Second, func(ctx context.Context) error { // the next reading begins after 15 s
		text, err := health(ctx)
		if err == nil && regexp.MustCompile(`(updater|webhook) (failing|late|unknown)`).MatchString(text) { // the recommender runs without leader election
			return fmt.Errorf("after %v: %s", time.Since(began), text)
		}
		return nil
	})
}

// olderLease changes the answer to a request for a lease to one that was renewed earlier.
func olderLease(r *http.Response, by time.Duration) error {
	if !strings.Contains(r.Request.URL.Path, "/leases/") || r.StatusCode != http.StatusOK {
		return nil
	}
	var lease map[string]any
	if err := json.NewDecoder(r.Body).Decode(&lease); err != nil {
		return err
	}
	spec := lease["spec"].(map[string]any)
	spec["renewTime"] = time.Now().Add(-by).UTC().Format("2006-01-02T15:04:05.000000Z")
	body, err := json.Marshal(lease)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return err
}

// ran runs podfit with an identity, and returns its output and its exit code.
func (p *place) ran(kubeconfig string, args ...string) (string, int) {
	p.Helper()
	ctx, cancel := bed.WithPatience(p.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.binary, append(args, "--kubeconfig", kubeconfig)...)
	cmd.Env = append(cmd.Environ(), "KUBERNETES_SERVICE_HOST=")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestRecommend_youngWorkload_reportPageAndExplainDoNotJudge reads a workload that requests 400m CPU and has a recommendation of 108m to 120m
// from 12 minutes of usage, with the role view in its namespace. The report, the page and the explanation say that it is not judged yet, with
// the same number, and none says that its requests are right.
func TestRecommend_youngWorkload_reportPageAndExplainDoNotJudge(t *testing.T) {
	t.Parallel()
	p := newPlace(t, youngShop)
	p.apply(strings.ReplaceAll(viewers, "web-view", "young-view"))
	now := time.Now()
	for name, cpu := range map[string]string{"young": "400m", "fitting": "115m"} {
		w := spec{Name: name, CPU: "10m", Memory: "40Mi", Requests: "{cpu: " + cpu + ", memory: 64Mi}"}
		p.apply(w.manifest(), w.autoscaler("Initial"), storedMinutes(name, "app", now, 12))
		p.start(name, 2)
		p.adviseCPU(name, 108, 114, 120)
	}
	kubeconfig, err := p.Identity(t.Context(), "young-view")
	if err != nil {
		t.Fatal(err)
	}
	address := p.servePage(kubeconfig, "-n", p.ns)
	const reason = "not enough usage: 12 minutes, 6 hours are needed"
	unearned := regexp.MustCompile(`within the bounds|nothing to change|need no change|needs no change|has the recommended size|have the recommended size|No risk is known|No workload of`)
	number := regexp.MustCompile(`\b114 ?m\b`)
	check := func(who, text string) {
		t.Helper()
		if !strings.Contains(text, reason) || !number.MatchString(text) || unearned.MatchString(text) {
			t.Errorf("%s: has the reason %v, the number %v, and says %q\n%s", who, strings.Contains(text, reason), number.MatchString(text), unearned.FindString(text), text)
		}
	}
	report, code := p.ran(kubeconfig, "recommend", "-n", p.ns, "--source=cluster", "-o", "json")
	if code != 0 || strings.Count(report, reason) < 2 {
		t.Errorf("recommend: exit code %d, and not twice %q\n%s", code, reason, report)
	}
	for _, name := range []string{"young", "fitting"} {
		text, code := p.ran(kubeconfig, "explain", "deploy/"+name, "-n", p.ns)
		if code != 0 {
			t.Errorf("explain %s: exit code %d", name, code)
		}
		check("explain "+name, strings.Join(strings.Fields(text), " "))
		p.eventually("the page of "+name+" has read the usage", time.Minute, func(ctx context.Context) error {
			_, body, err := fetched(ctx, address, "/workloads/"+p.ns+"/Deployment/"+name, "")
			if err == nil && !strings.Contains(body, reason) {
				err = errors.New(textOf(body))
			}
			return err
		})
		_, body, err := fetched(t.Context(), address, "/workloads/"+p.ns+"/Deployment/"+name, "")
		if err != nil {
			t.Error(err)
		}
		check("the page of "+name, textOf(body))
	}
	table, code := p.ran(kubeconfig, "recommend", "-n", p.ns, "--source=cluster")
	for _, note := range []string{"No right to list nodes", "No right to list SizingProfiles"} {
		if code != 0 || !strings.Contains(table, note) || !number.MatchString(table) {
			t.Errorf("recommend: exit code %d, and it does not say 114m or %q:\n%s", code, note, table)
		}
	}
	for _, args := range [][]string{{"recommend", "-A", "--source=cluster"}, {"recommend", "-n", "default", "--source=cluster"}, {"web", "--web-address=127.0.0.1:0"}, {"explain"}, {"explain", "deploy/young"}} {
		text, code := p.ran(kubeconfig, args...)
		if code == 0 || !strings.Contains(text, "-n NAMESPACE") {
			t.Errorf("%v: exit code %d, and no -n NAMESPACE: %s", args, code, text)
		}
	}
}

// storedMinutes returns a checkpoint with some minutes of usage.
func storedMinutes(autoscaler, container string, now time.Time, minutes int) string {
	days := storedDays(autoscaler, container, now)
	first := now.Add(-time.Minute - time.Duration(minutes)*time.Minute).UTC().Format(time.RFC3339)
	days = regexp.MustCompile(`firstSampleStart: "[^"]*"`).ReplaceAllString(days, fmt.Sprintf("firstSampleStart: %q", first))
	return strings.Replace(days, "totalSamplesCount: 12000", fmt.Sprintf("totalSamplesCount: %d", minutes), 1)
}
