// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"podfit.dev/podfit/test/e2e/bed"
)

// hostileWorkload has texts in annotations and in a container that try to leave their place in a page. It sends an OOM kill, too.
const hostileWorkload = `apiVersion: apps/v1
kind: Deployment
metadata: {name: hostile, annotations: {note: '"><script>window.hacked=1</script>'}}
spec:
  replicas: 1
  selector: {matchLabels: {app: hostile}}
  template:
    metadata:
      labels: {app: hostile}
      annotations:
        sim.podfit.dev/app.cpu: 50m
        sim.podfit.dev/app.memory: 60Mi
        podfit.dev/note: '"><img src=x onerror="window.hacked=1">'
    spec:
      containers:
      - {name: app, image: shop/hostile, resources: {requests: {cpu: 100m, memory: 64Mi}}}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: hostile, annotations: {podfit.dev/hpa: '"><script>window.hacked=1</script>'}}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: hostile}
  recommenders: [{name: balanced}]
  updatePolicy: {updateMode: "Off"}
`

// A site is podfit with its page in a local cluster.
type site struct {
	*testing.T
	cluster *bed.Cluster
	podfit  *bed.Podfit
	binary  string
	root    string // address of the page
}

// newSite starts a local cluster with the workloads of the demo, and podfit in one process with its page.
func newSite(t *testing.T) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("a local cluster is not short")
	}
	root, err := bed.Root()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t}
	if s.binary, err = bed.Build(t.Context(), root, os.Stderr); err != nil {
		t.Fatal(err)
	}
	s.cluster, err = bed.Up(t.Context(), bed.Options{Root: root, Nodes: 2, NodeCPU: 8, NodeMemory: "16Gi", Metrics: 5 * time.Second, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.cluster.Down(); err != nil {
			t.Error(err)
		}
	})
	for _, folder := range []string{"deploy", "deploy/all-in-one", "deploy/web"} {
		if err := s.cluster.Install(t.Context(), filepath.Join(root, filepath.FromSlash(folder))); err != nil {
			t.Fatal(err)
		}
	}
	workloads, err := os.ReadFile(filepath.Join(root, "test", "e2e", "demo", "workloads.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.apply("", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	s.apply("shop", string(workloads))
	s.apply("shop", hostileWorkload)
	s.serve()
	return s
}

// apply applies a manifest.
func (s *site) apply(namespace, manifest string) {
	s.Helper()
	if err := s.cluster.ApplyYAML(s.Context(), namespace, manifest); err != nil {
		s.Fatal(err)
	}
}

// serve starts podfit.
func (s *site) serve() {
	s.Helper()
	serving, err := bed.Serving()
	if err != nil {
		s.Fatal(err)
	}
	port, err := bed.FreePort()
	if err != nil {
		s.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	s.root = "http://" + address
	s.podfit, err = s.cluster.Run(s.Context(), s.binary, bed.All().With(serving...).With(
		"--web-address="+address, "--web-auth=none", "--leader-elect", "--recommender-interval=5s", "--updater-interval=5s", "--checkpoints-gc-interval=1m",
	))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if s.Failed() {
			s.Log(s.podfit.Tail(40))
		}
		s.podfit.Kill()
	})
}

// page returns the body of a page.
func (s *site) page(path string) (string, error) {
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.root+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", path, response.StatusCode, b)
	}
	return string(b), err
}

// eventually waits until a check of a page succeeds.
func (s *site) eventually(what string, within time.Duration, check func() error) {
	s.Helper()
	ctx, cancel := bed.WithPatience(s.Context(), within)
	defer cancel()
	if err := bed.Until(ctx, 500*time.Millisecond, func(context.Context) error { return check() }); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// contains returns an error if a page does not contain a text.
func (s *site) contains(path string, texts ...string) error {
	body, err := s.page(path)
	for _, text := range texts {
		if err == nil && !strings.Contains(body, text) {
			err = fmt.Errorf("%s does not contain %q:\n%s", path, text, body)
		}
	}
	return err
}

// recommended is what podfit recommend prints, as far as the page has it, too.
type recommended struct {
	Summary struct {
		Workloads, WorkloadsAtRisk int
		RequestsFreed              struct{ CPU, Memory string }
	}
	Containers []struct {
		Namespace, Kind, Name, Container, Risk, Confidence string
		CPU, Memory                                        struct{ Target string }
	}
}

// recommend runs podfit recommend on the cluster.
func (s *site) recommend() (recommended, error) {
	var out recommended
	var errs bytes.Buffer
	cmd := exec.CommandContext(s.Context(), s.binary, "recommend", "--kubeconfig="+s.cluster.Kubeconfig, "--source=cluster", "-o=json")
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST=")
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%w: %s", err, errs.String())
	}
	return out, json.Unmarshal(text, &out)
}

// clusterPages are all pages, by the name of their picture.
var clusterPages = []struct{ name, path string }{
	{"overview", "/"}, {"workloads", "/workloads"}, {"workload", "/workloads/shop/Deployment/web"}, {"hostile", "/workloads/shop/Deployment/hostile"},
	{"explanation", "/workloads/shop/Deployment/web?explain=1"}, {"nodes", "/nodes"}, {"activity", "/activity"}, {"profiles", "/profiles"}, {"about", "/about"},
}

// Each page of a real cluster with podfit at work, light and dark, narrow and wide, has no error on the console, no violation of the security
// policy, no request to another address and no serious finding of axe-core. Its numbers are those of podfit recommend. When the API server
// ends, the open page stays and shows since when its data are old; when it is back, the page is up to date again.
func TestCluster_podfitAtWork_pagesAreCleanAndSurviveTheAPIServer(t *testing.T) {
	if missing != "" {
		t.Skip(missing)
	}
	s := newSite(t)
	s.eventually("podfit has sized a workload", 3*time.Minute, func() error {
		return s.contains("/activity", "Resized in place")
	})
	s.eventually("the workload of the profile balanced has a chart and a recommendation", 2*time.Minute, func() error {
		return s.contains("/workloads/shop/Deployment/hostile", "data-chart", "What each profile recommends")
	})
	s.eventually("the numbers are those of podfit recommend", time.Minute, s.sameNumbers)
	checker := axe(t)
	for _, look := range []struct {
		dark  bool
		width int64
	}{{false, 1280}, {true, 1280}, {false, 360}, {true, 360}, {false, 2560}} {
		p := open(t, look.dark, look.width)
		for _, page := range clusterPages {
			p.do(t, chromedp.Navigate(s.root+page.path))
			evaluate[any](t, p, settled)
			picture(t, p, fmt.Sprintf("cluster-%s-%s-%d", page.name, map[bool]string{false: "light", true: "dark"}[look.dark], look.width))
			if wide := evaluate[int64](t, p, "document.documentElement.scrollWidth"); wide > look.width {
				t.Errorf("%s is %d pixels wide in a window of %d", page.name, wide, look.width)
			}
			if evaluate[bool](t, p, "window.hacked === 1 || document.querySelector('main img, main script') !== null") {
				t.Errorf("%s ran a hostile text", page.name)
			}
			p.do(t, chromedp.Evaluate(checker, nil))
			for _, finding := range evaluate[[]string](t, p, findings) {
				t.Errorf("%s at %d pixels: %s", page.name, look.width, finding)
			}
		}
	}
	s.outage()
}

// sameNumbers returns an error if the page and podfit recommend differ. Both see a cluster that changes, so the caller repeats it.
func (s *site) sameNumbers() error {
	want, err := s.recommend()
	if err != nil {
		return err
	}
	body, err := s.page("/?format=json")
	if err != nil {
		return err
	}
	var page struct{ Workloads, WorkloadsAtRisk int }
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		return err
	}
	if page.Workloads != want.Summary.Workloads || page.WorkloadsAtRisk != want.Summary.WorkloadsAtRisk || want.Summary.Workloads < 4 {
		return fmt.Errorf("the page has %+v, podfit recommend %+v", page, want.Summary)
	}
	for _, c := range want.Containers {
		body, err := s.page("/workloads/" + c.Namespace + "/" + c.Kind + "/" + c.Name + "?format=json")
		if err != nil {
			return err
		}
		if !strings.Contains(body, `"risk": "`+c.Risk+`"`) || !strings.Contains(body, `"confidence": "`+c.Confidence+`"`) {
			return fmt.Errorf("podfit recommend has risk %s and confidence %s for %s, the page\n%s", c.Risk, c.Confidence, c.Name, body)
		}
	}
	return nil
}

// outage stops the API server while a page is open.
func (s *site) outage() {
	p := open(s.T, false, 1280)
	p.do(s.T, chromedp.Navigate(s.root+"/"))
	evaluate[any](s.T, p, settled)
	if err := s.cluster.StopPart(s.Context(), bed.APIServer); err != nil {
		s.Fatal(err)
	}
	stopped := time.Now()
	text := ""
	s.eventually("the open page shows that its data are old", 2*time.Minute, func() error {
		if text = evaluate[string](s.T, p, "document.body.innerText"); !strings.Contains(text, "has failed since") {
			return fmt.Errorf("the page %v after the end of the API server: %s", time.Since(stopped), text)
		}
		return nil
	})
	picture(s.T, p, "cluster-outage")
	for _, want := range []string{"web", "Could be given back", "What is shown may be out of date", "old"} {
		if !strings.Contains(text, want) {
			s.Errorf("the open page does not show %q:\n%s", want, text)
		}
	}
	for _, page := range clusterPages {
		if page.name == "explanation" {
			continue // it reads the cluster
		}
		body, err := s.page(page.path)
		if err != nil || !strings.Contains(body, "has failed since") {
			s.Errorf("%s without an API server: %v", page.path, err)
		}
	}
	if err := s.cluster.StartPart(s.Context(), bed.APIServer); err != nil {
		s.Fatal(err)
	}
	s.eventually("the open page is up to date again", 2*time.Minute, func() error {
		if text = evaluate[string](s.T, p, "document.body.innerText"); strings.Contains(text, "has failed since") {
			return fmt.Errorf("the page: %s", text)
		}
		return nil
	})
}
