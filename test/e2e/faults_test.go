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
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	vpav1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// withFaults is the name of the environment variable that enables TestFaults, which takes half an hour (make faults).
const withFaults = "PODFIT_FAULTS"

// A fault is something that fails while podfit runs.
type fault struct {
	name  string
	lasts time.Duration // after it began
	begin func(*faulty) // fails the test if it cannot
	end   func(*faulty) // nil: nothing
	kills bool          // a component ends and is started again

	allowed invariant.Rule // may be broken
}

// recoversWithin is how long after a fault all of podfit must work again.
const recoversWithin = 90 * time.Second

// TestFaults injects one fault after the other. After each, the recommender must recommend, the updater must resize a pod, and the admission controller
// must size a new one, within recoversWithin. A watcher of the audit log checks the invariants all the time.
func TestFaults_anyOne_podfitRecovers(t *testing.T) {
	if os.Getenv(withFaults) == "" {
		t.Skip("takes half an hour: make faults")
	}
	f := startFaulty(t)
	f.recover(t, "at the start", time.Now())
	var table []string
	for _, one := range faults() {
		t.Run(strings.ReplaceAll(one.name, " ", "-"), func(t *testing.T) {
			f.T = t
			alive := f.remember()
			one.begin(f)
			f.wait(one.lasts)
			if one.end != nil {
				one.end(f)
			}
			took := f.recover(t, one.name, time.Now())
			if !one.kills {
				f.alive(alive)
			}
			found, _, err := f.news(t.Context(), func(v invariant.Violation) bool { return v.Rule != one.allowed })
			if err != nil {
				t.Error(err)
			}
			for _, v := range found {
				t.Errorf("invariant violated:\n%v", v)
			}
			table = append(table, fmt.Sprintf("| %s | %.1f s | %d |", one.name, took.Seconds(), len(found)))
		})
	}
	f.T = t
	fmt.Printf("| fault | recovered in | violations |\n|---|---|---|\n%s\n", strings.Join(table, "\n"))
}

// faulty is a cluster whose API server answers podfit through a gate.
type faulty struct {
	*place
	answer  atomic.Pointer[func(*http.Response) error] // what happens to answers of the API server; nil: nothing
	refuse  atomic.Pointer[func(*http.Request) int]    // the status with which requests are answered without the API server, 0 if they are not
	gate    *bed.Gate
	serving bed.Component // the admission controller
	cpu     int           // millicores that the pods of pulse have
}

// The workloads: podfit recommends for learnt. The recommendations of pulse and fresh are written by the test.
const (
	learntSpace = "faults-learnt"
	pulseSpace  = "faults-pulse"
)

func startFaulty(t *testing.T) *faulty {
	t.Helper()
	w := &world{root: shared.root, binary: shared.binary}
	var err error
	w.Cluster, err = bed.Up(t.Context(), bed.Options{
		Root: w.root, Nodes: 3, NodeCPU: 8, NodeMemory: "16Gi", Metrics: 5 * time.Second, Audit: true, Progress: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Down(); err != nil {
			t.Error(err)
		}
	})
	if err := w.Install(t.Context(), filepath.Join(w.root, "deploy")); err != nil {
		t.Fatal(err)
	}
	witness, err := w.Witness(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.checker = &checker{witness: witness, limits: invariant.DefaultLimits()}
	f := &faulty{}
	if f.gate, err = w.NewGate(func(*http.Request) {}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.gate.Close)
	f.gate.Refuse = func(w http.ResponseWriter, r *http.Request) bool {
		refuse := f.refuse.Load()
		if refuse == nil {
			return false
		}
		code := (*refuse)(r)
		switch code {
		case 0:
			return false
		case away:
			panic(http.ErrAbortHandler) // closes the connection
		}
		text, header := statusOf(code)
		for key := range header {
			w.Header().Set(key, header.Get(key))
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
		return true
	}
	f.gate.Answer = func(r *http.Response) error {
		if change := f.answer.Load(); change != nil {
			return (*change)(r)
		}
		return nil
	}
	if f.serving, err = admission(); err != nil {
		t.Fatal(err)
	}
	f.place = newPlaceIn(t, w, pulseSpace)
	f.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + learntSpace + "}}")
	f.startComponents("recommender", "updater", "admission-controller")
	learnt := steady("learnt")
	if err := f.ApplyYAML(t.Context(), learntSpace, learnt.manifest()); err != nil {
		t.Fatal(err)
	}
	if err := f.ApplyYAML(t.Context(), learntSpace, autoscaler("learnt", "", "learnt", "InPlaceOrRecreate", "")); err != nil {
		t.Fatal(err)
	}
	f.apply(spec{Name: "pulse", Requests: "{cpu: 200m, memory: 100Mi}", CPU: "50m", Memory: "50Mi"}.manifest(), autoscaler("pulse", "", "pulse", "InPlaceOrRecreate", ""))
	f.apply(spec{Name: "fresh", Requests: "{cpu: 100m, memory: 100Mi}", CPU: "50m", Memory: "50Mi"}.manifest(), autoscaler("fresh", "", "fresh", "Initial", ""))
	f.start("pulse", 2)
	f.start("fresh", 2)
	f.cpu = 200
	f.recommend("fresh", "250m", "250m", "260m")
	f.eventually("the workload has a recommendation", measured+resized, f.isRecommended)
	return f
}

// component returns one of the three, behind the gate.
func (f *faulty) component(name string) bed.Component {
	c := f.serving
	switch name {
	case "recommender":
		c = bed.Recommender().With("--recommender-interval=5s", "--ignored-vpa-object-namespaces="+pulseSpace)
	case "updater":
		c = bed.Updater().With("--updater-interval=5s", "--admission-controller-status-lease-timeout=15s")
	}
	return c.Behind(f.gate)
}

// startComponents starts components, in place of former ones.
func (f *faulty) startComponents(names ...string) {
	f.Helper()
	for _, name := range names {
		p, err := f.healthy(f.Context(), f.component(name))
		if err != nil {
			f.Fatal(err)
		}
		*f.process(name) = p
	}
}

func (f *faulty) process(name string) **bed.Podfit {
	return map[string]**bed.Podfit{"recommender": &f.recommender, "updater": &f.updater, "admission-controller": &f.admission}[name]
}

// wait waits for the length of a fault.
func (f *faulty) wait(d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-f.Context().Done():
	}
}

// answers sets what happens to the answers of the API server.
func (f *faulty) answers(change func(*http.Response) error) { f.answer.Store(&change) }

// isRecommended returns nil if podfit recommends for the workload.
func (f *faulty) isRecommended(ctx context.Context) error {
	a, err := f.Autoscaler(ctx, learntSpace, "learnt")
	if err != nil {
		return err
	}
	if a.Status.Recommendation == nil || len(a.Status.Recommendation.ContainerRecommendations) != 1 {
		return errors.New("there is no recommendation")
	}
	return nil
}

// recover returns how long after a time all of podfit works again: it recommends, resizes a pod, and sizes a new one.
func (f *faulty) recover(t *testing.T, after string, since time.Time) time.Duration {
	t.Helper()
	f.answer.Store(nil)
	f.refuse.Store(nil)
	ctx, cancel := bed.WithPatience(t.Context(), recoversWithin)
	defer cancel()
	f.cpu += 5
	cpu := fmt.Sprintf("%dm", f.cpu)
	check := func(what string, ok func(context.Context) error) {
		t.Helper()
		if err := bed.Until(ctx, 200*time.Millisecond, ok); err != nil {
			t.Errorf("%s: %s, within %v: %v", after, what, recoversWithin, err)
			f.report()
		}
	}
	check("the API server accepts a recommendation", func(ctx context.Context) error {
		size := func(c string) map[string]string { return map[string]string{"cpu": c, "memory": "100Mi"} }
		return f.patchStatus(ctx, pulseSpace, "pulse", map[string]any{"containerRecommendations": []any{
			map[string]any{"containerName": "app", "lowerBound": size(cpu), "target": size(cpu), "upperBound": size(cpu)},
		}})
	})
	check("the recommendation can be removed", func(ctx context.Context) error { return f.patchStatus(ctx, learntSpace, "learnt", nil) })
	var old []corev1.Pod
	check("a pod can be deleted", func(ctx context.Context) (err error) {
		if old, err = f.running(ctx, "fresh", 2); err != nil {
			return err
		}
		return f.CoreV1().Pods(f.ns).Delete(ctx, old[0].Name, metav1.DeleteOptions{})
	})
	check("podfit recommends", f.isRecommended)
	check("the updater resizes pods", f.sized("pulse", 2, "app cpu="+cpu+" memory=104857600"))
	check("a new pod has the recommendation", func(ctx context.Context) error {
		pods, err := f.running(ctx, "fresh", 2)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if !slices.ContainsFunc(old, func(o corev1.Pod) bool { return o.UID == pod.UID }) {
				if got := requests(pod); got == "app cpu=250m memory=104857600" {
					return nil
				}
				// It was created before the webhook worked again.
				old = append(old, pod)
				return errors.Join(fmt.Errorf("pod %s has %q", pod.Name, requests(pod)), f.CoreV1().Pods(f.ns).Delete(ctx, pod.Name, metav1.DeleteOptions{}))
			}
		}
		return errors.New("the deleted pod is not replaced")
	})
	for _, c := range f.components() {
		if tail := c.Tail(2000); strings.Contains(tail, "panic") {
			t.Errorf("%s: the log of %s has a panic:\n%s", after, c.Name, tail)
		}
	}
	return time.Since(since)
}

func (f *faulty) patchStatus(ctx context.Context, ns, name string, recommendation any) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"recommendation": recommendation}})
	if err != nil {
		return err
	}
	vpas := f.as("vpa-recommender").Dynamic.Resource(vpav1.GroupVersion().WithResource(vpav1.ResourceAutoscalers)).Namespace(ns)
	_, err = vpas.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// The faults.

func faults() []fault {
	all := slices.Concat(faultsOfAnswers(), faultsOfMetrics(), faultsOfParts(), faultsOfProcesses(), faultsOfObjects())
	for _, name := range []string{
		"system:metrics-reader", "system:vpa-actor", "podfit:recommender", "podfit:updater", "system:vpa-status-actor", "system:vpa-checkpoint-actor",
		"podfit:profile-reader", "podfit:capacity-planner", "system:vpa-target-reader-binding", "system:vpa-evictioner-binding", "system:vpa-updater-in-place-binding",
		"system:vpa-status-reader-binding", "system:vpa-admission-controller",
	} {
		all = append(all, withoutRight(name))
	}
	return all
}

// onAnswers returns a fault of the answers of the API server.
func onAnswers(name string, lasts time.Duration, change func(*http.Response) error) fault {
	return fault{name: name, lasts: lasts, begin: func(f *faulty) { f.answers(change) }}
}

// away is the answer of an API server that ends the connection.
const away = -1

// onRequests returns a fault in which requests do not reach the API server.
func onRequests(name string, lasts time.Duration, refuse func(*http.Request) int) fault {
	return fault{name: name, lasts: lasts, begin: func(f *faulty) { f.refuse.Store(&refuse) }}
}

// statusOf returns the body and the header of an error.
func statusOf(code int) (string, http.Header) {
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"a fault"}`, code,
		map[int]string{410: "Expired", 429: "TooManyRequests", 409: "Conflict", 500: "InternalError", 503: "ServiceUnavailable"}[code]), header
}

// status replaces an answer by an error.
func status(r *http.Response, code int) error {
	r.Body.Close()
	text, header := statusOf(code)
	r.StatusCode, r.Status = code, ""
	r.Header = header
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return nil
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func isWrite(r *http.Response) bool { return r.Request.Method != http.MethodGet }

// every returns a change of every n-th answer.
func every(n int32, change func(*http.Response) error) func(*http.Response) error {
	var count atomic.Int32
	return func(r *http.Response) error {
		if count.Add(1)%n == 0 {
			return change(r)
		}
		return nil
	}
}

func slowly(d time.Duration) func(*http.Response) error {
	return func(r *http.Response) error {
		select {
		case <-time.After(d):
		case <-r.Request.Context().Done():
		}
		return nil
	}
}

func failing(code int) func(*http.Request) int {
	return func(*http.Request) int { return code }
}

// A cut ends a stream after a time or a number of bytes.
type cut struct {
	io.ReadCloser
	left  int
	timer *time.Timer
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (c *cut) Close() error {
	c.timer.Stop()
	return c.ReadCloser.Close()
}

func cutAfter(r *http.Response, d time.Duration, size int) {
	body := r.Body
	r.Body = &cut{body, size, time.AfterFunc(d, func() { body.Close() })}
}

func faultsOfAnswers() []fault {
	return []fault{
		onRequests("API server away for 1 s", time.Second, failing(away)),
		onRequests("API server away for 10 s", 10*time.Second, failing(away)),
		onRequests("API server away for 1 min", time.Minute, failing(away)),
		onAnswers("all requests take 2 s", 20*time.Second, slowly(2*time.Second)),
		onAnswers("half of the requests take 10 s", 30*time.Second, every(2, slowly(10*time.Second))),
		onAnswers("watches end after 2 s", 20*time.Second, func(r *http.Response) error {
			if isWatch(r.Request) {
				cutAfter(r, 2*time.Second, 1<<30)
			}
			return nil
		}),
		onRequests("watches are Gone", 20*time.Second, func(r *http.Request) int {
			if isWatch(r) {
				return http.StatusGone
			}
			return 0
		}),
		onRequests("further pages of lists are Gone", 20*time.Second, func(r *http.Request) int {
			if r.URL.Query().Get("continue") != "" {
				return http.StatusGone
			}
			return 0
		}),
		onRequests("all requests 429", 20*time.Second, failing(http.StatusTooManyRequests)),
		onRequests("all requests 503", 20*time.Second, failing(http.StatusServiceUnavailable)),
		onRequests("every second request 500", 20*time.Second, func() func(*http.Request) int {
			var count atomic.Int32
			return func(*http.Request) int {
				if count.Add(1)%2 == 0 {
					return http.StatusInternalServerError
				}
				return 0
			}
		}()),
		onAnswers("writes carried out but answered 503", 20*time.Second, func(r *http.Response) error {
			if isWrite(r) {
				return status(r, http.StatusServiceUnavailable)
			}
			return nil
		}),
		onAnswers("writes carried out but never answered", 20*time.Second, func(r *http.Response) error {
			if isWrite(r) {
				return errors.New("the connection is lost")
			}
			return nil
		}),
		onAnswers("all writes conflict", 20*time.Second, func(r *http.Response) error {
			if isWrite(r) {
				return status(r, http.StatusConflict)
			}
			return nil
		}),
		onAnswers("bodies end after 100 bytes", 20*time.Second, func(r *http.Response) error {
			cutAfter(r, time.Hour, 100)
			return nil
		}),
		onAnswers("empty bodies", 20*time.Second, func(r *http.Response) error {
			r.Body.Close()
			r.Body, r.ContentLength = http.NoBody, 0
			r.Header.Del("Content-Length")
			return nil
		}),
	}
}

// onMetrics returns a fault of the Metrics API: a change of its answers in JSON.
func onMetrics(name string, change func(text string) string) fault {
	return onAnswers("metrics: "+name, 25*time.Second, func(r *http.Response) error {
		if !strings.HasPrefix(r.Request.URL.Path, "/apis/metrics.k8s.io/") || r.StatusCode != http.StatusOK {
			return nil
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return err
		}
		text = []byte(change(string(text)))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Length", fmt.Sprint(len(text)))
		return nil
	})
}

var (
	usageCPU    = regexp.MustCompile(`"cpu":"[^"]*"`)
	usageMemory = regexp.MustCompile(`"memory":"[^"]*"`)
	usageTime   = regexp.MustCompile(`"timestamp":"[^"]*"`)
)

func withUsage(cpu, memory string) func(string) string {
	return func(text string) string {
		return usageMemory.ReplaceAllString(usageCPU.ReplaceAllString(text, `"cpu":"`+cpu+`"`), `"memory":"`+memory+`"`)
	}
}

func withTime(d time.Duration) func(string) string {
	return func(text string) string {
		return usageTime.ReplaceAllString(text, `"timestamp":"`+time.Now().Add(d).UTC().Format(time.RFC3339)+`"`)
	}
}

func faultsOfMetrics() []fault {
	return []fault{
		{name: "metrics-server away", lasts: 25 * time.Second, begin: func(f *faulty) { f.stopPart(bed.MetricsServer) }, end: func(f *faulty) { f.startPart(bed.MetricsServer) }},
		onMetrics("zeroes", withUsage("0", "0")),
		onMetrics("not a number", withUsage("NaN", "NaN")),
		onMetrics("negative", withUsage("-1", "-1Mi")),
		onMetrics("10^6 times too high", withUsage("300k", "200Ti")),
		onMetrics("times an hour back", withTime(-time.Hour)),
		onMetrics("times an hour ahead", withTime(time.Hour)),
		onMetrics("no items", func(text string) string {
			if i := strings.Index(text, `"items":[`); i >= 0 {
				return text[:i] + `"items":[]}`
			}
			return text
		}),
		onMetrics("half of the answer", func(text string) string { return text[:len(text)/2] }),
	}
}

func (f *faulty) stopPart(part bed.Part) {
	f.Helper()
	if err := f.StopPart(f.Context(), part); err != nil {
		f.Fatal(err)
	}
}

func (f *faulty) startPart(part bed.Part) {
	f.Helper()
	if err := f.StartPart(f.Context(), part); err != nil {
		f.Fatal(err)
	}
}

func faultsOfParts() []fault {
	part := func(name string, p bed.Part) fault {
		return fault{name: name, lasts: 15 * time.Second, begin: func(f *faulty) { f.stopPart(p) }, end: func(f *faulty) { f.startPart(p) }}
	}
	return []fault{
		part("controllers of the cluster away", bed.Controllers),
		part("scheduler away", bed.Scheduler),
		part("API server restarts", bed.APIServer),
	}
}

func (f *faulty) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func faultsOfProcesses() []fault {
	var all []fault
	kill := func(names ...string) fault {
		return fault{name: "SIGKILL of " + strings.Join(names, ", "), kills: true, begin: func(f *faulty) {
			for _, name := range names {
				(*f.process(name)).Kill()
			}
		}, end: func(f *faulty) { f.startComponents(names...) }}
	}
	for _, name := range []string{"recommender", "updater", "admission-controller"} {
		all = append(all, kill(name), fault{name: "SIGSTOP of " + name + " for 40 s", lasts: 40 * time.Second,
			begin: func(f *faulty) { f.must((*f.process(name)).Suspend()) }, end: func(f *faulty) { f.must((*f.process(name)).Resume()) }})
	}
	second := fault{name: "two updaters without leader election", lasts: 30 * time.Second, allowed: invariant.SoleLeader}
	var other *bed.Podfit
	second.begin = func(f *faulty) {
		var err error
		other, err = f.healthy(f.Context(), f.component("updater").Named("second-updater"))
		f.must(err)
	}
	second.end = func(*faulty) { other.Kill() }
	return append(all, kill("recommender", "updater", "admission-controller"), second)
}

// A resource of the cluster.
func resourceOf(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

// withoutCRD returns a fault in which a kind of podfit is not served, and then is again.
func withoutCRD(resource string) fault {
	var saved *unstructured.Unstructured
	crds := resourceOf("apiextensions.k8s.io", "v1", "customresourcedefinitions")
	return fault{name: "CRD " + resource + " deleted", lasts: 20 * time.Second, begin: func(f *faulty) {
		var err error
		saved, err = f.Dynamic.Resource(crds).Get(f.Context(), resource+".podfit.dev", metav1.GetOptions{})
		f.must(err)
		f.must(f.Dynamic.Resource(crds).Delete(f.Context(), saved.GetName(), metav1.DeleteOptions{}))
	}, end: func(f *faulty) { f.create(crds, saved) }}
}

// create creates an object that was deleted.
func (f *faulty) create(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	f.Helper()
	o = o.DeepCopy()
	o.SetResourceVersion("")
	o.SetUID("")
	delete(o.Object, "status")
	f.eventually(o.GetName()+" is created", time.Minute, func(ctx context.Context) error {
		_, err := f.Dynamic.Resource(resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}

// withoutObject returns a fault in which an object is deleted. Unless it must come back by itself, it is created again.
func withoutObject(resource schema.GroupVersionResource, ns, name string) fault {
	var saved *unstructured.Unstructured
	return fault{name: resource.Resource + " " + name + " deleted", lasts: 15 * time.Second, begin: func(f *faulty) {
		var err error
		saved, err = f.Dynamic.Resource(resource).Namespace(ns).Get(f.Context(), name, metav1.GetOptions{})
		f.must(err)
		f.must(f.Dynamic.Resource(resource).Namespace(ns).Delete(f.Context(), name, metav1.DeleteOptions{}))
	}, end: func(f *faulty) {
		if _, err := f.Dynamic.Resource(resource).Namespace(ns).Get(f.Context(), name, metav1.GetOptions{}); err != nil {
			f.create(resource, saved)
		}
	}}
}

// changed returns a fault in which another client changes an object of podfit.
func changed(what string, resource schema.GroupVersionResource, ns, name, patch string) fault {
	return fault{name: what, lasts: 15 * time.Second, begin: func(f *faulty) {
		_, err := f.Dynamic.Resource(resource).Namespace(ns).Patch(f.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		f.must(err)
	}}
}

// corrupted returns a fault in which all objects of a kind of podfit have other values than podfit has written, and the component that reads them at
// its start is killed.
func corrupted(resource schema.GroupVersionResource, ns, component string) fault {
	return fault{name: "corrupt " + resource.Resource, lasts: 5 * time.Second, kills: true, begin: func(f *faulty) {
		objects, n := f.Dynamic.Resource(resource).Namespace(ns), 0
		f.eventually("there are "+resource.Resource, recoversWithin, func(ctx context.Context) error {
			l, err := objects.List(ctx, metav1.ListOptions{})
			if err != nil || len(l.Items) == 0 {
				return errors.Join(err, errors.New("none"))
			}
			for _, o := range l.Items {
				for _, part := range []string{"spec", "status"} {
					fields, _ := o.Object[part].(map[string]any)
					for field, value := range fields {
						patch, err := json.Marshal(map[string]any{part: map[string]any{field: corrupt(value)}})
						f.must(err)
						for _, sub := range [][]string{nil, {"status"}} {
							if _, err := objects.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, sub...); err == nil {
								n++
							}
						}
					}
				}
			}
			return nil
		})
		f.Logf("%d fields changed", n)
		(*f.process(component)).Kill()
	}, end: func(f *faulty) { f.startComponents(component) }}
}

// corrupt returns another value of the same type, as far as the API server accepts it.
func corrupt(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			out[k] = corrupt(x)
		}
		return out
	case []any:
		out := []any{}
		for _, x := range v {
			out = append(out, corrupt(x))
		}
		return append(out, out...)
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return "9999-01-01T00:00:00Z"
		}
		return strings.Repeat("A", len(v))
	case int64:
		return -v - 1
	case float64:
		return -v - 1
	}
	return v
}

// withoutRight returns a fault in which podfit loses rights while it runs.
func withoutRight(binding string) fault {
	var saved *unstructured.Unstructured
	bindings := resourceOf("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
	return fault{name: "without " + binding, lasts: 20 * time.Second, begin: func(f *faulty) {
		var err error
		saved, err = f.Dynamic.Resource(bindings).Get(f.Context(), binding, metav1.GetOptions{})
		f.must(err)
		f.must(f.Dynamic.Resource(bindings).Delete(f.Context(), binding, metav1.DeleteOptions{}))
		var seen sync.Map
		f.answers(func(r *http.Response) error { // each watch ends once, so that it needs its right again
			if key := r.Request.URL.Path; isWatch(r.Request) {
				if _, again := seen.LoadOrStore(key, true); !again {
					cutAfter(r, time.Second, 1<<30)
				}
			}
			return nil
		})
	}, end: func(f *faulty) { f.create(bindings, saved) }}
}

// corruptState returns a fault in which the updater starts with an UpdateState that it has not written. It deletes those that it does not need.
func corruptState() fault {
	const manifest = `apiVersion: podfit.dev/v1alpha1
kind: UpdateState
metadata: {name: deployment-pulse}
spec: {target: {group: apps, kind: Deployment, name: pulse}}
`
	const status = `{"status": {"updated": "9999-01-01T00:00:00Z", "omittedPods": -1, "actingSince": "9999-01-01T00:00:00Z", "evictions": {"lastTime": "9999-01-01T00:00:00Z",
		"ineffective": 2147483647, "requested": [{"container": "app", "requests": {"cpu": "-1"}}]}, "pods": [{"uid": "AAAA", "action": "Resize", "lastTime":
		"9999-01-01T00:00:00Z", "attempts": 2147483647, "outcome": "AAAA"}, 7, null], "canary": {"phase": "AAAA"}, "capacity": [], "changes": {}}}`
	return fault{name: "corrupt updatestates", lasts: 5 * time.Second, kills: true, begin: func(f *faulty) {
		f.updater.Kill()
		f.apply(manifest)
		states := f.Dynamic.Resource(resourceOf("podfit.dev", "v1alpha1", "updatestates")).Namespace(pulseSpace)
		_, err := states.Patch(f.Context(), "deployment-pulse", types.MergePatchType, []byte(status), metav1.PatchOptions{})
		if err != nil {
			_, err = states.Patch(f.Context(), "deployment-pulse", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
		}
		f.must(err)
	}, end: func(f *faulty) { f.startComponents("updater") }}
}

// allowing returns a fault in which a rule may be broken: with the flags of the test, the admission controller looks for its objects every 2 seconds, and
// without a right to create them it cannot do more.
func allowing(rule invariant.Rule, one fault) fault {
	one.allowed = rule
	return one
}

func faultsOfObjects() []fault {
	secrets, leases := resourceOf("", "v1", "secrets"), resourceOf("coordination.k8s.io", "v1", "leases")
	webhooks := resourceOf("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations")
	checkpoints := vpav1.GroupVersion().WithResource("verticalpodautoscalercheckpoints")
	own := func(name string) schema.GroupVersionResource { return resourceOf("podfit.dev", "v1alpha1", name) }
	return []fault{
		withoutCRD("updatestates"), withoutCRD("usagehistories"), withoutCRD("sizingprofiles"), withoutCRD("capacityplans"),
		allowing(invariant.BacksOff, withoutObject(secrets, bed.Namespace, "vpa-tls-certs")),
		changed("other certificates in the Secret", secrets, bed.Namespace, "vpa-tls-certs", `{"data":{"caCert.pem":"AAAA","serverCert.pem":"AAAA","serverKey.pem":"AAAA"}}`),
		allowing(invariant.BacksOff, withoutObject(webhooks, "", "vpa-webhook-config")),
		changed("webhook configuration without webhooks", webhooks, "", "vpa-webhook-config", `{"webhooks":[]}`),
		withoutObject(leases, bed.Namespace, "vpa-admission-controller"),
		corrupted(checkpoints, learntSpace, "recommender"),
		corruptState(),
		corrupted(own("capacityplans"), "", "recommender"),
		{name: "500 VPAs created at once", lasts: 10 * time.Second, begin: func(f *faulty) {
			f.apply("{apiVersion: v1, kind: Namespace, metadata: {name: faults-many}}")
			var all strings.Builder
			for i := range 500 {
				all.WriteString(autoscaler(fmt.Sprintf("many-%d", i), "", fmt.Sprintf("none-%d", i), "Recreate", "") + "---\n")
			}
			f.must(f.ApplyYAML(f.Context(), "faults-many", all.String()))
		}},
		{name: "their namespace deleted", lasts: 5 * time.Second, begin: func(f *faulty) {
			f.must(f.CoreV1().Namespaces().Delete(f.Context(), "faults-many", metav1.DeleteOptions{}))
		}},
		{name: "a namespace with 60 pods deleted", lasts: 5 * time.Second, begin: func(f *faulty) {
			f.apply("{apiVersion: v1, kind: Namespace, metadata: {name: faults-pods}}")
			f.must(f.ApplyYAML(f.Context(), "faults-pods", spec{Name: "many", Replicas: 60, Requests: "{cpu: 10m, memory: 10Mi}", CPU: "5m", Memory: "5Mi"}.manifest()))
			f.wait(5 * time.Second)
			f.must(f.CoreV1().Namespaces().Delete(f.Context(), "faults-pods", metav1.DeleteOptions{}))
		}},
	}
}
