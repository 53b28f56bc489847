// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/load/apiserver"
	"podfit.dev/podfit/test/load/fleet"
)

// The systems that are measured.
const (
	separate   = "podfit, three processes"
	oneProcess = "podfit run"
	upstream   = "upstream"
)

// A Setup is how a run is made.
type Setup struct {
	System   string
	Fleet    fleet.Config
	QPS      int           // requests per second that each component may send
	Limit    time.Duration // how long the first recommendations may take
	Settle   time.Duration // how long the updater may correct pods before the steady state
	Steady   time.Duration // how long the steady state is measured
	Webhook  time.Duration // how long the webhook is loaded; 0: not at all
	Rate     int           // reviews per second
	Churn    bool
	Podfit   string // path of podfit
	Upstream string // folder of upstream's components
	Dir      string // for logs
	// Statuses are recommendations for the updater of upstream, by namespace/name of the VPA, if its recommender makes none in time.
	Statuses map[string]json.RawMessage `json:"-"`
}

// A Usage is what a process has used. Memory is in MiB, CPU in seconds.
type Usage struct {
	Process             string
	Peak, Resident, CPU float64
	Steps               map[string]histogram // durations of the steps of its passes since the start, by metric and step
}

// A Line is the number of requests of one kind.
type Line struct {
	apiserver.Request
	apiserver.Count
}

// A Result is the result of a run. Durations are in seconds.
type Result struct {
	System      string
	Workloads   int
	Pods        int // of each workload
	Containers  int
	Churn       bool
	New         bool // without stored history
	Settled     int  // minutes between the last first recommendation and the steady state, if these are many
	At          time.Time
	Load        float64 // load average of the machine at the start
	Recommended int     // VPAs with a recommendation at the end of the limit
	First       float64 // from the start until all VPAs have a recommendation; 0: not reached
	Recommender []float64
	Updater     []float64
	Processes   []Usage
	Window      float64 // of the steady state
	Start       []Line  // requests until the steady state
	Steady      []Line  // requests in the steady state
	Webhook     Webhook
	Replaced    int // evicted pods

	statuses map[string]json.RawMessage
}

// settles reports whether the steady state is measured so late that the usage of the first minutes counts little.
func (s *Setup) settles() bool { return s.Settle >= 10*time.Minute }

// Writes returns the writes per second and the bytes per second of the steady state.
func (r *Result) Writes() (requests, bytes float64) {
	for _, l := range r.Steady {
		if l.Request.Writes() {
			requests += float64(l.Requests)
			bytes += float64(l.Received)
		}
	}
	return requests / r.Window, bytes / r.Window
}

// Memory returns the sums of the peaks and of the resident memory of all processes.
func (r *Result) Memory() (peak, resident float64) {
	for _, p := range r.Processes {
		peak += p.Peak
		resident += p.Resident
	}
	return peak, resident
}

// A run is a fleet, its API server and the components under measurement.
type run struct {
	Setup
	log        io.Writer
	server     *apiserver.Server
	fleet      *fleet.Fleet
	hook       *webhook
	kubeconfig string
	processes  []*process
	progress   recommendations
}

// recommendations counts the VPAs that have a recommendation.
type recommendations struct {
	mu   sync.Mutex
	have map[string]bool
	want int
	all  chan struct{} // closed when all have one
	at   time.Time     // of the last one
}

// written counts the VPA of a write, if its status has a recommendation.
func (c *recommendations) written(o *apiserver.Object) {
	if o.Kind.Resource != "verticalpodautoscalers" {
		return
	}
	var v struct {
		Status struct {
			Recommendation struct {
				ContainerRecommendations []json.RawMessage `json:"containerRecommendations"`
			} `json:"recommendation"`
		} `json:"status"`
	}
	if err := json.Unmarshal(o.JSON(), &v); err != nil || len(v.Status.Recommendation.ContainerRecommendations) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := o.Namespace + "/" + o.Name; !c.have[id] {
		c.have[id] = true
		c.at = time.Now()
		if len(c.have) == c.want {
			close(c.all)
		}
	}
}

func (c *recommendations) count() (int, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.have), c.at
}

// measure runs the components of a system and returns what they did.
func measure(ctx context.Context, o Setup, progress io.Writer) (*Result, error) {
	f := fleet.New(o.Fleet)
	r := &run{Setup: o, log: progress, fleet: f}
	r.progress = recommendations{have: make(map[string]bool), want: o.Fleet.Workloads, all: make(chan struct{})}
	r.server = apiserver.Start(apiserver.Options{Usage: f.Usage, Written: r.progress.written, Evicted: f.Evicted, Resized: f.Resized})
	defer f.Stop()
	defer r.server.Stop()
	r.hook = &webhook{server: r.server}
	f.Admit = r.hook.admit
	began := time.Now()
	f.Fill(r.server)
	r.say("%d VPAs, %d pods, %d containers are stored after %.1f s", o.Fleet.Workloads, o.Fleet.Workloads*o.Fleet.Pods, o.Fleet.Containers(), time.Since(began).Seconds())
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := r.writeKubeconfig(); err != nil {
		return nil, err
	}
	result, err := r.run(ctx)
	for _, p := range r.processes {
		err = errors.Join(err, p.Stop())
	}
	return result, err
}

func (r *run) say(format string, values ...any) {
	fmt.Fprintf(r.log, "%s %s: %s\n", time.Now().Format(time.TimeOnly), r.System, fmt.Sprintf(format, values...))
}

func (r *run) writeKubeconfig() error {
	r.kubeconfig = filepath.Join(r.Dir, "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["load"] = &clientcmdapi.Cluster{
		Server: r.server.URL(), CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate()}),
	}
	config.AuthInfos["load"] = &clientcmdapi.AuthInfo{}
	config.Contexts["load"] = &clientcmdapi.Context{Cluster: "load", AuthInfo: "load"}
	config.CurrentContext = "load"
	return clientcmd.WriteToFile(*config, r.kubeconfig)
}

// start starts a component.
func (r *run) start(name, path string, args ...string) (*process, error) {
	args = append(args, "--kubeconfig="+r.kubeconfig, fmt.Sprintf("--kube-api-qps=%d", r.QPS), fmt.Sprintf("--kube-api-burst=%d", r.QPS))
	log := filepath.Join(r.Dir, name+".log")
	if err := os.RemoveAll(log); err != nil {
		return nil, err
	}
	p, err := startProcess(bed.Command{Name: name, Path: path, Args: args, Log: log})
	if err == nil {
		r.processes = append(r.processes, p)
		r.say("%s runs as process %d", name, p.PID())
	}
	return p, err
}

func (r *run) run(ctx context.Context) (*Result, error) {
	result := &Result{System: r.System, Workloads: r.Fleet.Workloads, Pods: r.Fleet.Pods, Containers: r.Fleet.Containers(), Churn: r.Churn, New: r.Fleet.History == 0, At: time.Now(), Load: loadAverage()}
	if r.settles() {
		result.Settled = int(r.Settle.Minutes())
	}
	first, err := r.startFirst()
	if err != nil {
		return nil, err
	}
	if err := r.await(ctx, first, result); err != nil {
		return nil, err
	}
	if err := r.startRest(ctx); err != nil {
		return nil, err
	}
	if err := sleep(ctx, r.Settle); err != nil {
		return nil, err
	}
	before := r.server.Counts()
	result.Start = lines(before)
	began := time.Now()
	for _, p := range r.processes {
		p.begin()
	}
	r.say("steady state for %v, after %d evictions", r.Steady, r.fleet.Replaced())
	if err := r.steady(ctx); err != nil {
		return nil, err
	}
	result.Window = time.Since(began).Seconds()
	result.Steady = lines(r.server.Counts().Minus(before))
	for _, p := range r.processes {
		result.Recommender = append(result.Recommender, p.durations(recommenderPass)...)
		result.Updater = append(result.Updater, p.durations(updaterPass)...)
	}
	if r.Webhook > 0 && r.System != upstream {
		r.say("%d reviews a second for %v", r.Rate, r.Webhook)
		if result.Webhook, err = r.hook.load(ctx, r.Rate, r.Webhook); err != nil {
			return nil, fmt.Errorf("load the webhook: %w", err)
		}
		for reason, n := range result.Webhook.Failures {
			r.say("%d reviews failed: %s", n, reason)
		}
	}
	for _, p := range r.processes {
		if !p.Running() {
			return nil, fmt.Errorf("%s exited: %w\n%s", p.name, p.Err(), p.Tail(20))
		}
		result.Processes = append(result.Processes, p.usage())
	}
	result.Replaced = r.fleet.Replaced()
	result.statuses = r.statuses()
	return result, nil
}

// startFirst starts the component that recommends.
func (r *run) startFirst() (*process, error) {
	switch r.System {
	case upstream:
		return r.start("upstream-recommender", filepath.Join(r.Upstream, "recommender"))
	case oneProcess:
		hook, err := bed.Serving()
		if err != nil {
			return nil, err
		}
		return r.start("run", r.Podfit, append([]string{"run"}, hook...)...)
	}
	return r.start("recommender", r.Podfit, "recommender")
}

// startRest starts the other components, and waits until the updater may act.
func (r *run) startRest(ctx context.Context) error {
	switch r.System {
	case upstream:
		for _, p := range r.processes { // its updater is measured alone: together they need more than two cores
			p.begin()
		}
		r.fillStatuses()
		_, err := r.start("upstream-updater", filepath.Join(r.Upstream, "updater"), "--use-admission-controller-status=false")
		return err
	case separate:
		hook, err := bed.Serving()
		if err != nil {
			return err
		}
		if _, err := r.start("admission-controller", r.Podfit, append([]string{"admission-controller"}, hook...)...); err != nil {
			return err
		}
		if _, err := r.start("updater", r.Podfit, "updater"); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return bed.Until(limited, time.Second, func(context.Context) error {
		_, _, err := r.hook.connect()
		return err
	})
}

// fillStatuses sets the recommendations that upstream's recommender has not made.
func (r *run) fillStatuses() {
	for _, v := range r.server.List("autoscaling.k8s.io/verticalpodautoscalers", "") {
		id := v.Namespace + "/" + v.Name
		r.progress.mu.Lock()
		have := r.progress.have[id]
		r.progress.mu.Unlock()
		if status := r.Statuses[id]; status != nil && !have {
			r.server.SetStatus("autoscaling.k8s.io/verticalpodautoscalers", v.Namespace, v.Name, status)
		}
	}
}

// statuses returns the statuses of all VPAs.
func (r *run) statuses() map[string]json.RawMessage {
	out := make(map[string]json.RawMessage)
	for _, v := range r.server.List("autoscaling.k8s.io/verticalpodautoscalers", "") {
		var o struct{ Status json.RawMessage }
		if json.Unmarshal(v.JSON(), &o) == nil && o.Status != nil {
			out[v.Namespace+"/"+v.Name] = o.Status
		}
	}
	return out
}

// await waits until all VPAs have a recommendation, or the limit has passed.
func (r *run) await(ctx context.Context, p *process, result *Result) error {
	limit := time.NewTimer(r.Limit)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Done():
			return fmt.Errorf("%s exited: %w\n%s", p.name, p.Err(), p.Tail(20))
		case <-tick.C:
			n, _ := r.progress.count()
			r.say("%d recommendations after %.0f s, %.0f MiB", n, time.Since(p.started).Seconds(), p.memory("VmRSS"))
			continue
		case <-limit.C:
			result.Recommended, _ = r.progress.count()
			r.say("only %d of %d VPAs have a recommendation after %v", result.Recommended, r.Fleet.Workloads, r.Limit)
		case <-r.progress.all:
			var at time.Time
			result.Recommended, at = r.progress.count()
			result.First = at.Sub(p.started).Seconds()
			r.say("all VPAs have a recommendation after %.1f s", result.First)
		}
		return nil
	}
}

// sleep waits for a time.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// steady waits for the time of the steady state.
func (r *run) steady(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, r.Steady)
	defer cancel()
	if r.Churn {
		r.fleet.Churn(limited, r.Steady)
	}
	<-limited.Done()
	return ctx.Err()
}
