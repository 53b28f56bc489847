// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/app/updater"
	"podfit.dev/podfit/internal/compatibility"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/watcher"
	"podfit.dev/podfit/internal/edge/webhook"
	"podfit.dev/podfit/test/kubetest"
)

// An upstreamCase is the situation of one of upstream's end-to-end cases about several components: three pods in a simulated cluster with the real
// recommender, updater and webhook. With both values of --compatibility, the outcome of all of them is upstream's. test/contract has the list of
// all cases of upstream.
type upstreamCase struct {
	name       string
	vpa        string            // fields of the spec of the VPA besides the target
	older      string            // the same of an older VPA with the same target, which recommends 500m and 500Mi; "" means that there is none
	advice     map[string]string // recommended amounts when the VPA is created, by container, JSON
	fixed      bool              // no recommender runs, so that the recommendation stays
	limits     string            // item of a LimitRange, JSON; "" means that there is none
	containers string            // of the pods, JSON
	inits      string            // init containers of the pods, JSON
	running    bool              // the first pods are created before the VPA, so the webhook does not size them
	killed     bool              // the kubelet OOM-kills the pods every minute
	phases     []phase
	stays      bool   // no pod is replaced
	observed   string // annotation vpaObservedContainers of all pods at the end; "" means that any value is right
}

// A phase is a usage of each pod, and the requests that all pods must have within a time.
type phase struct {
	cpu, memory string // usage
	resource    corev1.ResourceName
	want        []string // "least most" of each container
	inits       []string // the same of each init container
	within      time.Duration
	never       bool // no pod may have the requests
}

// usual is the first recommendation of most of upstream's cases.
var usual = map[string]string{"app": `{"cpu":"250m","memory":"200Mi"}`}

const (
	smallContainer  = `{"name":"app","image":"app","resources":{"requests":{"cpu":"10m","memory":"10M"}}}`
	mediumContainer = `{"name":"app","image":"app","resources":{"requests":{"cpu":"100m","memory":"100Mi"}}}`
	twoContainers   = smallContainer + `,{"name":"second","image":"app","resources":{"requests":{"cpu":"20m"}}}`
	usualWait       = 15 * time.Minute // of most of upstream's cases
)

func upstreamCases() []upstreamCase {
	idleCPU := phase{cpu: "5m", memory: "10Mi", resource: corev1.ResourceCPU, want: []string{"1m 100m"}, within: usualWait}
	idleMemory := phase{cpu: "5m", memory: "10Mi", resource: corev1.ResourceMemory, want: []string{"1 300Mi"}, within: usualWait}
	busy := phase{cpu: "600m", memory: "10Mi", resource: corev1.ResourceCPU, want: []string{"500m 1300m"}, within: usualWait}
	large := phase{cpu: "5m", memory: "1Gi", resource: corev1.ResourceMemory, want: []string{"900Mi 4000Mi"}, within: usualWait}
	unserved := busy
	unserved.never, unserved.want = true, []string{"500m 1000m"}
	boosted := func(want ...string) phase {
		return phase{cpu: "5m", memory: "10Mi", resource: corev1.ResourceCPU, want: want, within: 5 * time.Second}
	}
	after := func(want ...string) phase {
		return phase{cpu: "5m", memory: "10Mi", resource: corev1.ResourceCPU, want: want, within: usualWait}
	}
	boostOf := func(container string, seconds int) string {
		return fmt.Sprintf(`{"containerName":%q,"startupBoost":{"cpu":{"type":"Factor","factor":20,"durationSeconds":%d}}}`, container, seconds)
	}
	ended := idleCPU
	ended.want = []string{"1m 100m", "1m 100m"}
	const inPlace, recreate = `"updatePolicy":{"updateMode":"InPlaceOrRecreate"}`, `"updatePolicy":{"updateMode":"Recreate"}`
	const boost = `"startupBoost":{"cpu":{"type":"Factor","factor":20,"durationSeconds":10}}`
	return []upstreamCase{
		{name: "CPU usage grows, mode InPlaceOrRecreate", vpa: inPlace, advice: usual, containers: smallContainer, phases: []phase{idleCPU, busy}},
		{name: "memory usage grows, mode InPlaceOrRecreate", vpa: inPlace, advice: usual, containers: smallContainer, phases: []phase{idleMemory, large}},
		{name: "CPU usage grows, mode Recreate", vpa: recreate, advice: usual, containers: smallContainer, phases: []phase{idleCPU, busy}},
		{name: "memory usage grows, mode Recreate", vpa: recreate, advice: usual, containers: smallContainer, phases: []phase{idleMemory, large}},
		{name: "CPU usage grows, the VPA names the default recommender", vpa: recreate + `,"recommenders":[{"name":"default"}]`, advice: usual,
			containers: smallContainer, phases: []phase{idleCPU, busy}},
		{name: "CPU usage grows, the VPA names another recommender", vpa: recreate + `,"recommenders":[{"name":"non-recognized"}]`, advice: usual,
			containers: smallContainer, phases: []phase{unserved}},
		{name: "boost of all containers", vpa: inPlace + "," + boost, containers: smallContainer, phases: []phase{boosted("180m 220m"), idleCPU}},
		{name: "boost of one of two containers", vpa: inPlace + `,"resourcePolicy":{"containerPolicies":[{"containerName":"app",` + boost + `}]}`,
			containers: twoContainers, phases: []phase{boosted("180m 220m", "1m 100m"), ended}},
		{name: "boost of one of two containers with a recommendation", fixed: true, advice: map[string]string{"app": `{"cpu":"10m"}`}, containers: twoContainers,
			vpa: inPlace + `,"resourcePolicy":{"containerPolicies":[` + boostOf("app", 65) + `]}`, stays: true,
			phases: []phase{boosted("200m 200m", "20m 20m"), after("10m 10m", "20m 20m")}},
		{name: "boosts of two containers for different times", fixed: true, advice: map[string]string{"app": `{"cpu":"10m"}`, "second": `{"cpu":"20m"}`},
			containers: twoContainers, vpa: inPlace + `,"resourcePolicy":{"containerPolicies":[` + boostOf("app", 65) + "," + boostOf("second", 185) + `]}`, stays: true,
			phases: []phase{boosted("200m 200m", "400m 400m"), after("10m 10m", "400m 400m"), after("10m 10m", "20m 20m")}},
		{name: "mode Initial, an older VPA has the mode Off", fixed: true, advice: usual, containers: mediumContainer, vpa: `"updatePolicy":{"updateMode":"Initial"}`,
			older: `"updatePolicy":{"updateMode":"Off"}`, stays: true, phases: []phase{
				{resource: corev1.ResourceCPU, want: []string{"250m 250m"}, within: 5 * time.Second},
				{resource: corev1.ResourceMemory, want: []string{"200Mi 200Mi"}, within: 5 * time.Second},
			}},
		{name: "OOM kills", vpa: recreate, killed: true,
			containers: `{"name":"app","image":"app","resources":{"requests":{"memory":"1Gi"},"limits":{"memory":"1Gi"}}}`,
			phases:     []phase{{cpu: "5m", memory: "1000Mi", resource: corev1.ResourceMemory, want: []string{"1400Mi 10000Mi"}, within: 8 * time.Minute}}},
	}
}

// A wholeCluster is a simulated API server with a Deployment of three pods, its controller, a kubelet, the Metrics API and the webhook.
type wholeCluster struct {
	*kubetest.FakeAPI
	t          *testing.T
	containers string
	inits      string
	fixed      bool
	running    bool
	webhook    http.Handler

	mu          sync.Mutex
	cpu, memory string
	created     int
}

func newWholeCluster(t *testing.T, c *upstreamCase) *wholeCluster {
	f := &wholeCluster{FakeAPI: kubetest.NewLocalAPI(t), t: t, containers: c.containers, inits: c.inits, fixed: c.fixed, running: c.running}
	f.Handle(f.handle)
	f.OnEvict(func(string, string) { time.AfterFunc(2*time.Second, f.create) })
	f.ApplyNode("n", "64", "256Gi")
	f.Apply("/apis/apps/v1/deployments", `{"metadata":{"namespace":"shop","name":"web"},"spec":{"replicas":3}}`)
	f.Apply(kubetest.ReplicaSetsPath, `{"metadata":{"namespace":"shop","name":"web-1","uid":"rs","ownerReferences":[
		{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"d","controller":true}]},"spec":{"replicas":3}}`)
	if c.limits != "" {
		f.Apply("/api/v1/limitranges", `{"metadata":{"namespace":"shop","name":"range"},"spec":{"limits":[`+c.limits+`]}}`)
	}
	if c.older != "" {
		f.autoscale("1-web", c.older, time.Hour, map[string]string{"app": `{"cpu":"500m","memory":"500Mi"}`})
	}
	f.autoscale("web", c.vpa, 0, c.advice)
	return f
}

func stamp() string { return time.Now().UTC().Format(time.RFC3339) }

// autoscale creates a VPA of the Deployment with a recommendation.
func (f *wholeCluster) autoscale(name, spec string, age time.Duration, advice map[string]string) {
	var recommended []string
	for _, container := range slices.Sorted(maps.Keys(advice)) {
		amounts := advice[container]
		recommended = append(recommended, fmt.Sprintf(`{"containerName":%q,"target":%s,"lowerBound":%s,"upperBound":%s}`, container, amounts, amounts, amounts))
	}
	status := ""
	if len(recommended) > 0 {
		status = `,"status":{"recommendation":{"containerRecommendations":[` + strings.Join(recommended, ",") + `]}}`
	}
	f.Apply(kubetest.AutoscalersPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":%q,"generation":1,"creationTimestamp":%q},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},%s}%s}`,
		name, "uid of "+name, time.Now().Add(-age).UTC().Format(time.RFC3339), spec, status))
}

// create creates a pod as the ReplicaSet does. The webhook sizes it, except the first pods if they run before the VPA. It is ready immediately.
func (f *wholeCluster) create() {
	f.mu.Lock()
	f.created++
	name, sized := fmt.Sprint("web-1-", f.created), !f.running || f.created > 3
	f.mu.Unlock()
	object := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":%q,"uid":%q,"creationTimestamp":%q,"ownerReferences":[
		{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"rs","controller":true}]},"spec":{"nodeName":"n","containers":[%s],"initContainers":[%s]}}`,
		name, "uid of "+name, stamp(), f.containers, f.inits)
	var pod *corev1.Pod
	if sized {
		pod = f.admit(object)
	} else {
		pod = f.decode(object)
	}
	now := metav1.Now()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
	}
	for i := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: pod.Spec.Containers[i].Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	for i := range pod.Spec.InitContainers {
		init := corev1.ContainerStatus{Name: pod.Spec.InitContainers[i].Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}
		if pod.Spec.InitContainers[i].RestartPolicy == nil {
			init.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
		}
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, init)
	}
	f.store(pod)
}

// store stores a pod. The kubelet applies its size immediately.
func (f *wholeCluster) store(p *corev1.Pod) {
	for i := range p.Status.ContainerStatuses {
		p.Status.ContainerStatuses[i].Resources = p.Spec.Containers[i].Resources.DeepCopy()
	}
	for i := range p.Status.InitContainerStatuses {
		p.Status.InitContainerStatuses[i].Resources = p.Spec.InitContainers[i].Resources.DeepCopy()
	}
	f.Apply(kubetest.PodsPath, string(f.encode(p)))
}

func (f *wholeCluster) encode(o any) []byte {
	text, err := json.Marshal(o)
	if err != nil {
		f.t.Error(err)
	}
	return text
}

// admit returns a pod as the webhook changes it.
func (f *wholeCluster) admit(object []byte) *corev1.Pod {
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Namespace: "shop", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
		},
	}
	q := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(f.encode(review)))
	q.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.webhook.ServeHTTP(w, q)
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil || !review.Response.Allowed {
		f.t.Errorf("the response of the webhook is %s", w.Body)
		return new(corev1.Pod)
	}
	if len(review.Response.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(review.Response.Patch)
		if err != nil {
			f.t.Error(err)
		}
		if object, err = patch.Apply(object); err != nil {
			f.t.Error(err)
		}
	}
	return f.decode(object)
}

func (f *wholeCluster) decode(object []byte) *corev1.Pod {
	pod := new(corev1.Pod)
	if err := json.Unmarshal(object, pod); err != nil {
		f.t.Error(err)
	}
	return pod
}

// pods returns all pods.
func (f *wholeCluster) pods() []*corev1.Pod {
	var out []*corev1.Pod
	for _, key := range f.Keys(kubetest.PodsPath) {
		if o := f.Object(kubetest.PodsPath, key); o != nil {
			out = append(out, f.decode(f.encode(o)))
		}
	}
	return out
}

// kill restarts the containers of all pods, as the kubelet does after an OOM kill.
func (f *wholeCluster) kill() {
	for _, p := range f.pods() {
		s := &p.Status.ContainerStatuses[0]
		s.RestartCount++
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: "OOMKilled", ExitCode: 137, StartedAt: s.State.Running.StartedAt, FinishedAt: metav1.Now(),
		}
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Now()}
		f.store(p)
	}
}

// handle responds to requests of metrics and of changes of pods.
func (f *wholeCluster) handle(w http.ResponseWriter, r *http.Request, q kubetest.Request) bool {
	switch {
	case q.Collection == "/apis/metrics.k8s.io/v1beta1/pods":
		kubetest.Respond(w, http.StatusOK, f.metrics())
	case q.Verb == http.MethodPatch && q.Collection == kubetest.PodsPath:
		kubetest.Respond(w, http.StatusOK, f.patch(q.Namespace+"/"+q.Name, r))
	default:
		return false
	}
	return true
}

// patch changes a pod, or resizes it.
func (f *wholeCluster) patch(key string, q *http.Request) string {
	patch, err := io.ReadAll(q.Body)
	if err != nil {
		f.t.Error(err)
	}
	changed, err := strategicpatch.StrategicMergePatch(f.encode(f.Object(kubetest.PodsPath, key)), patch, corev1.Pod{})
	if err != nil {
		f.t.Errorf("%s: %v", patch, err)
	}
	f.store(f.decode(changed))
	return string(changed)
}

// metrics returns the usage of all containers.
func (f *wholeCluster) metrics() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var items []string
	for _, p := range f.pods() {
		var containers []string
		for i := range p.Spec.Containers {
			containers = append(containers, fmt.Sprintf(`{"name":%q,"usage":{"cpu":%q,"memory":%q}}`, p.Spec.Containers[i].Name, f.cpu, f.memory))
		}
		items = append(items, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"timestamp":%q,"window":"30s","containers":[%s]}`, p.Name, stamp(), strings.Join(containers, ",")))
	}
	return `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{"resourceVersion":"1"},"items":[` + strings.Join(items, ",") + `]}`
}

// An admissionView is what the webhook reads of the watched cluster.
type admissionView struct {
	*watcher.World
	options watcher.FleetOptions
}

func (v admissionView) Project(ctx context.Context, p *corev1.Pod) *cluster.Pod {
	out := v.World.Project(p, nil)
	out.Top, _ = v.TopSoon(ctx, out.Controller)
	return out
}

func (v admissionView) Limits(namespace string) policy.Limits {
	return policy.Limits{Range: v.World.Limits(namespace), Quotas: v.Quotas(namespace), QuotasUnknown: !v.KnowsQuotas()}
}

func (v admissionView) Sizes(*corev1.Pod) *fleet.Sizes {
	return watcher.Fleet(v.World, v.options).For(cluster.NodeSelector{}, cluster.Tolerations{}, false)
}

// configured returns the configuration of podfit run with a value of --compatibility.
func configured(t *testing.T, mode compatibility.Mode, flags ...string) runConfig {
	t.Helper()
	c := runDefaults()
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	fs.SetNormalizeFunc(process.Dashes)
	c.Flags(fs)
	flags = append(flags, "--compatibility="+string(mode), "--feature-gates=CPUStartupBoost=true", "--use-admission-controller-status=false")
	if err := fs.Parse(flags); err != nil {
		t.Fatal(err)
	}
	if err := c.Compatibility.Apply(fs); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c.share()
	return c
}

// start starts the components, and creates the pods when the watches are complete. The components end with the context.
func (f *wholeCluster) start(ctx context.Context, c *runConfig) (ended chan error) {
	clients, err := kube.ClientsFor(kubetest.LocalConfig(f))
	if err != nil {
		f.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	p := process.New(log, prometheus.NewRegistry())
	world := watcher.NewWorld(clients, c.Watched(watcher.Options{
		Pods: watcher.AllPods, Evictions: true, Nodes: true, Limits: true, Quotas: true, Budgets: true, Profiles: true, Rules: true, Held: true,
		FreezeSwitch: c.Updater.FreezeSwitch(), Log: log,
	}))
	recommend, err := recommender.Work(&c.Recommender, p, clients, world, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	options := webhook.Options{Gates: webhook.Gates{CPUStartupBoost: c.Gates.On(process.CPUStartupBoost)}, InitContainers: c.SizeSidecars}
	view := admissionView{world, c.NodeFit.Options()}
	options.Nodes = view
	f.webhook = webhook.NewHandler(view, options, webhook.NewMetrics(prometheus.NewRegistry()), log)
	ended = make(chan error, 1)
	created := make(chan struct{})
	go func() {
		afterPods := func(ctx context.Context) error { // a boost starts from the requests of the template
			select {
			case <-created:
				if f.fixed {
					<-ctx.Done()
					return nil
				}
				return recommend(ctx)
			case <-ctx.Done():
				return nil
			}
		}
		ended <- process.WithWorld(ctx, world, afterPods, updater.Work(&c.Updater, p, clients, world), func(ctx context.Context) error {
			err := world.WaitSynced(ctx)
			for range 3 {
				f.create()
			}
			close(created)
			<-ctx.Done() // the other components end with the first one
			return err
		})
	}()
	return ended
}

// has reports whether all pods have the requests of a phase; for a phase with never, whether one has.
func (f *wholeCluster) has(x phase) bool {
	pods := f.pods()
	fit := func(containers []corev1.Container, want []string) bool {
		for i, bounds := range want {
			least, most, _ := strings.Cut(bounds, " ")
			q, found := containers[i].Resources.Requests[x.resource]
			if !found || q.Cmp(resource.MustParse(least)) < 0 || q.Cmp(resource.MustParse(most)) > 0 {
				return false
			}
		}
		return true
	}
	fits := func(p *corev1.Pod) bool { return fit(p.Spec.Containers, x.want) && fit(p.Spec.InitContainers, x.inits) }
	if x.never {
		return slices.ContainsFunc(pods, fits)
	}
	return len(pods) == 3 && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !fits(p) })
}

// await waits until the pods have the requests of a phase, and returns after how long; false if they do not get them.
func (f *wholeCluster) await(x phase, killed bool) (after time.Duration, ok bool) {
	f.mu.Lock()
	f.cpu, f.memory = x.cpu, x.memory
	f.mu.Unlock()
	began := time.Now()
	for time.Since(began) < x.within {
		time.Sleep(time.Second)
		synctest.Wait()
		if f.has(x) {
			return time.Since(began), true
		}
		if killed && time.Since(began)%time.Minute == 0 {
			f.kill()
		}
	}
	return x.within, false
}

// run runs a case with a configuration.
func (c *upstreamCase) run(t *testing.T, config *runConfig) {
	synctest.Test(t, func(t *testing.T) {
		f := newWholeCluster(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		ended := f.start(ctx, config)
		for i, x := range c.phases {
			after, ok := f.await(x, c.killed)
			t.Logf("phase %d: %v after %v", i, ok, after)
			if ok == x.never {
				t.Errorf("phase %d: pods have the requests %q and %q: %v, want %v\n%s", i, x.want, x.inits, ok, !x.never, f.encode(f.pods()))
			}
		}
		if c.stays {
			time.Sleep(usualWait)
			f.mu.Lock()
			if f.created > 3 {
				t.Errorf("%d pods were created, want 3", f.created)
			}
			f.mu.Unlock()
		}
		for _, p := range f.pods() {
			if got := p.Annotations[policy.ObservedAnnotation]; c.observed != "" && got != c.observed {
				t.Errorf("%s: vpaObservedContainers is %q, want %q", p.Name, got, c.observed)
			}
		}
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // replacements of evicted pods
	})
}

func TestCompatibility_usageOfUpstreamsCases_changesThePodsWithBothValues(t *testing.T) {
	for _, c := range upstreamCases() {
		for _, mode := range []compatibility.Mode{compatibility.Podfit, compatibility.Upstream} {
			t.Run(c.name+"/"+string(mode), func(t *testing.T) {
				config := configured(t, mode)
				c.run(t, &config)
			})
		}
	}
}
