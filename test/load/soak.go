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
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
	"podfit.dev/podfit/test/load/apiserver"
	"podfit.dev/podfit/test/load/fleet"
	"podfit.dev/podfit/test/load/soak"
)

// A SoakSetup is how a soak is made. Its days are of the same length, and each has the same amount of churn, and a fault.
type SoakSetup struct {
	Fleet                fleet.Config
	Days                 int
	Length               time.Duration // of a day
	Recommender, Updater time.Duration // intervals of the passes
	Bound                time.Duration // in which podfit must recover after a fault
	Podfit               string        // path of podfit
	Flags                []string      // of podfit, besides those that the soak needs
	Skip                 string        // faults with this text in their names are not drawn; "" for none
	Dir                  string        // for logs
}

// simulatedDay is the length of a day of make soak.
const simulatedDay = 40 * time.Second

// A SoakReport is the result of a soak.
type SoakReport struct {
	Seed        uint64
	Began       time.Time
	Minutes     float64
	Machine     string
	Workloads   int
	Pods        int // of each workload
	Days        int
	Length      float64 // of a day, in seconds
	Faults      []Fault
	Samples     []soak.Sample
	Comparisons []soak.Comparison
	Actions     map[string]int // evictions, resizes and deletions of pods
	MostWrites  int            // in a minute
	Violations  []invariant.Violation
}

// A Fault is what happened in a day, and how long podfit needed to be healthy again, in seconds.
type Fault struct {
	Day       int
	Name      string
	At        time.Time
	Lasted    float64
	Recovered float64
}

// A soaking is a soak that runs.
type soaking struct {
	SoakSetup
	log     io.Writer
	server  *apiserver.Server
	fleet   *fleet.Fleet
	hook    *webhook
	checker *soak.Checker
	flags   []string
	report  *SoakReport
	deleted map[string]time.Time // VPAs that were deleted, and still had series then

	refuse   atomic.Pointer[func(apiserver.Request) error]
	measured atomic.Pointer[func(*apiserver.Object, time.Time) (time.Time, bool)]
	factor   atomic.Int64 // of all usage

	mu      sync.Mutex
	process *bed.Process
	address string
	starts  int
	killed  bool // the end of the process is wanted
	read    int64
}

// runSoak runs podfit for the days of a soak.
func runSoak(ctx context.Context, o SoakSetup, progress io.Writer) (*SoakReport, error) {
	o.Fleet.Varied = true
	f := fleet.New(o.Fleet)
	s := &soaking{SoakSetup: o, log: progress, fleet: f, deleted: make(map[string]time.Time), report: &SoakReport{
		Seed: o.Fleet.Seed, Began: time.Now(), Machine: machine(), Workloads: o.Fleet.Workloads, Pods: o.Fleet.Pods, Days: o.Days, Length: o.Length.Seconds(),
	}}
	s.factor.Store(1)
	s.checker = soak.NewChecker(soak.Config{Foreign: fleet.Foreign, UpdaterInterval: o.Updater, WritesPerMinute: writesPerMinute(o.Fleet.Workloads)})
	s.server = apiserver.Start(apiserver.Options{
		Events: 5_000, Usage: s.usage, Evicted: f.Evicted, Resized: f.Resized, Refuse: s.refused, Measured: s.measure, Wrote: s.checker.Wrote, Changed: s.checker.Changed,
	})
	defer f.Stop()
	defer s.server.Stop()
	s.hook = &webhook{server: s.server}
	f.Admit = s.admit
	f.Fill(s.server)
	hook, err := bed.Serving()
	if err != nil {
		return nil, err
	}
	s.flags = append([]string{
		"run", "--kube-api-qps=500", "--kube-api-burst=500", "--checkpoints-gc-interval=30s",
		fmt.Sprintf("--recommender-interval=%v", o.Recommender), fmt.Sprintf("--updater-interval=%v", o.Updater),
	}, slices.Concat(hook, o.Flags)...)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(s.logFile()); err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { s.watch(watching) })
	err = s.days(ctx)
	stop()
	done.Wait()
	s.checker.Disturb(time.Now()) // it deletes its webhook when it stops
	err = errors.Join(err, s.stop())
	s.conclude()
	return s.report, err
}

// writesPerMinute is the most writes in a minute. In the first one, each VPA gets its status, many pods are resized, and each resize is told by events.
func writesPerMinute(workloads int) int { return 600 + 8*workloads }

func (s *soaking) say(format string, values ...any) {
	fmt.Fprintf(s.log, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, values...))
}

func (s *soaking) logFile() string { return filepath.Join(s.Dir, "podfit.log") }

// start starts podfit with a token of its own, so that its requests can be told from those of earlier processes.
func (s *soaking) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	port, err := bed.FreePort()
	if err != nil {
		return err
	}
	s.starts++
	config := clientcmdapi.NewConfig()
	config.Clusters["soak"] = &clientcmdapi.Cluster{
		Server: s.server.URL(), CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate()}),
	}
	config.AuthInfos["soak"] = &clientcmdapi.AuthInfo{Token: fmt.Sprintf("start%03d", s.starts)}
	config.Contexts["soak"] = &clientcmdapi.Context{Cluster: "soak", AuthInfo: "soak"}
	config.CurrentContext = "soak"
	kubeconfig := filepath.Join(s.Dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return err
	}
	s.address = fmt.Sprintf("127.0.0.1:%d", port)
	s.killed = false
	s.process, err = bed.Start(bed.Command{
		Name: "podfit", Path: s.Podfit, Log: s.logFile(), Env: []string{"KUBERNETES_SERVICE_HOST="}, // not in a pod, even if this process is
		Args: append(slices.Clone(s.flags), "--kubeconfig="+kubeconfig, "--address="+s.address),
	})
	return err
}

func (s *soaking) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = true
	return s.process.Stop()
}

// kill kills podfit.
func (s *soaking) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = true
	s.process.Kill()
}

func (s *soaking) current() (p *bed.Process, address string, starts int, killed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process, s.address, s.starts, s.killed
}

// usage, measure and refused are what a fault changes.
func (s *soaking) usage(pod *apiserver.Object, container int, at time.Time) (nanocores, bytes int64) {
	nanocores, bytes = s.fleet.Usage(pod, container, at)
	return nanocores * s.factor.Load(), bytes * s.factor.Load()
}

func (s *soaking) measure(pod *apiserver.Object, at time.Time) (time.Time, bool) {
	if change := s.measured.Load(); change != nil {
		return (*change)(pod, at)
	}
	return at, true
}

func (s *soaking) refused(r apiserver.Request) error {
	if refuse := s.refuse.Load(); refuse != nil {
		return (*refuse)(r)
	}
	return nil
}

// admit sends a new pod through the webhook. A pod that a fault keeps from it is marked.
func (s *soaking) admit(p *corev1.Pod) *corev1.Pod {
	out, err := s.hook.review(p)
	switch {
	case s.checker.Disturbed(time.Now()):
		if err != nil || out == p {
			out = p.DeepCopy()
			out.Annotations = map[string]string{bed.Unreviewed: "true"}
		}
	case err != nil:
		s.checker.Violate(soak.Reviews, time.Now(), p.Namespace+"/"+p.Name, err.Error())
	}
	return out
}

// days makes the days.
func (s *soaking) days(ctx context.Context) error {
	calm := s.checker.Disturb(time.Now())
	took, err := s.recovered(ctx, time.Now())
	if err != nil {
		return err
	}
	calm(time.Now())
	s.say("podfit is ready after %.1f s", took.Seconds())
	dice := rand.New(rand.NewPCG(s.Fleet.Seed, 7))
	deck := deal(dice, s.Days, s.Skip)
	told := 0 // violations; one that comes before them in order is in the report
	for day := 1; day <= s.Days; day++ {
		end := time.Now().Add(s.Length)
		var work sync.WaitGroup
		var churnErr, faultErr error
		work.Go(func() { churnErr = s.fleet.Day(ctx, day, s.Length) })
		if f := deck[day-1]; f != nil {
			work.Go(func() { faultErr = s.inject(ctx, day, f, dice) })
		}
		work.Wait()
		if err := errors.Join(churnErr, faultErr); err != nil {
			return err
		}
		if err := s.sample(ctx, day, end); err != nil {
			return err
		}
		s.checker.Judge(time.Now())
		for all := s.checker.Violations(); told < len(all); told++ {
			s.say("violation: %v", all[told])
		}
		s.fleet.ExpireEvents(time.Now().Add(-s.Length))
	}
	return nil
}

// inject makes a fault, ends it, and waits until podfit is healthy again.
func (s *soaking) inject(ctx context.Context, day int, f *disturbance, dice *rand.Rand) error {
	if err := sleep(ctx, s.Length/10); err != nil {
		return err
	}
	out := Fault{Day: day, Name: f.name, At: time.Now()}
	s.say("day %d: %s", day, f.name)
	calm := s.checker.Disturb(out.At)
	end, err := f.begin(s, dice)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if err := sleep(ctx, s.Length*3/10); err != nil {
		return err
	}
	if err := end(); err != nil {
		return fmt.Errorf("end of %s: %w", f.name, err)
	}
	ended := time.Now()
	out.Lasted = ended.Sub(out.At).Seconds()
	took, err := s.recovered(ctx, ended)
	if err != nil && ctx.Err() != nil {
		return err
	}
	out.Recovered = took.Seconds()
	if err != nil {
		s.checker.Violate(soak.Recovers, ended, f.name, fmt.Sprintf("podfit is not healthy %v after the end of the fault: %v", s.Bound, err))
	}
	calm(time.Now())
	s.report.Faults = append(s.report.Faults, out)
	return nil
}

// recovered waits until podfit is healthy after a time, and returns how long that took.
func (s *soaking) recovered(ctx context.Context, from time.Time) (time.Duration, error) {
	limited, cancel := context.WithTimeout(ctx, s.Bound)
	defer cancel()
	err := bed.Until(limited, 200*time.Millisecond, func(ctx context.Context) error { return s.healthy(ctx, from) })
	return time.Since(from), err
}

// healthy returns nil if the checks of podfit succeed, both loops have completed a pass since a time, and the webhook answers.
func (s *soaking) healthy(ctx context.Context, since time.Time) error {
	_, address, _, _ := s.current()
	for _, page := range []string{"/readyz", "/health-check"} {
		if _, err := get(ctx, address, page); err != nil {
			return err
		}
	}
	m, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	for _, loop := range []string{"recommender", "updater"} {
		if last := m[`podfit_pass_last_success_timestamp_seconds{loop="`+loop+`"}`]; last < float64(since.UnixMilli())/1000 {
			return fmt.Errorf("the %s has completed no pass", loop)
		}
	}
	pods := s.server.List("/pods", "")
	if len(pods) == 0 {
		return nil
	}
	p, ok := pods[0].Decode().(*corev1.Pod)
	if !ok {
		return errors.New("the first pod is no pod")
	}
	_, err = s.hook.review(p)
	return err
}

// get returns a page of podfit.
func get(ctx context.Context, address, page string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+page, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", page, response.Status, strings.TrimSpace(string(text)))
	}
	return string(text), err
}

// metrics returns all series of podfit.
func (s *soaking) metrics(ctx context.Context) (map[string]float64, error) {
	_, address, _, _ := s.current()
	text, err := get(ctx, address, "/metrics")
	if err != nil {
		return nil, err
	}
	out := make(map[string]float64)
	for line := range strings.SplitSeq(text, "\n") {
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(line[at+1:], &value); err == nil {
			out[line[:at]] = value
		}
	}
	return out, nil
}

// sample measures what podfit uses until the end of a day, and keeps the least of what varies with the time of a garbage collection or a pass.
func (s *soaking) sample(ctx context.Context, day int, end time.Time) error {
	if wait := time.Until(end.Add(-s.Length / 4)); wait > 0 {
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	var out soak.Sample
	for first := true; first || time.Now().Before(end); first = false {
		p, _, starts, _ := s.current()
		m, err := s.metrics(ctx)
		if err != nil {
			if err := sleep(ctx, time.Second); err != nil {
				return err
			}
			continue
		}
		now := soak.Sample{
			Process: starts, Heap: m["go_memstats_next_gc_bytes"] / (1 + m["go_gc_gogc_percent"]/100) / mebibyte, HeapInUse: m["go_memstats_heap_inuse_bytes"] / mebibyte,
			Resident: memoryOf(p.PID(), "VmRSS"), Goroutines: int(m["go_goroutines"]), Remembered: int(m["vpa_recommender_aggregate_container_states_count"]),
		}
		s.countSeries(m, &now)
		if out.Process == now.Process {
			now.Heap, now.HeapInUse, now.Resident = min(now.Heap, out.Heap), min(now.HeapInUse, out.HeapInUse), min(now.Resident, out.Resident)
			now.Goroutines = min(now.Goroutines, out.Goroutines)
		}
		out = now
		if err := sleep(ctx, s.Length/40); err != nil {
			return err
		}
	}
	out.Day, out.At = day, time.Now()
	out.Count = s.fleet.Live()
	out.Checkpoints = s.count("autoscaling.k8s.io/verticalpodautoscalercheckpoints")
	out.Histories = s.count("podfit.dev/usagehistories")
	out.UpdateStates = s.count("podfit.dev/updatestates")
	out.Events = s.count("/events") + s.count("events.k8s.io/events")
	s.report.Samples = append(s.report.Samples, out)
	s.judgeRecommendations()
	s.say("day %d: %d workloads, %d pods, heap %.1f MiB, %d goroutines, %d series, %d checkpoints, %d histories, %d update states, %d events; %d violations", day,
		out.Workloads, out.Pods, out.Heap, out.Goroutines, out.Series, out.Checkpoints, out.Histories, out.UpdateStates, out.Events, len(s.checker.Violations()))
	return nil
}

// servedFor is how long podfit may serve the series of a VPA after its deletion: 15 minutes, and a pass.
const servedFor = 16 * time.Minute

// nameLabel and namespaceLabel are the labels of a series that belongs to a VPA.
var nameLabel, namespaceLabel = regexp.MustCompile(`[{,]vpa_name="([^"]*)"`), regexp.MustCompile(`[{,]vpa_namespace="([^"]*)"`)

// countSeries counts the series that belong to no VPA or to one that exists, and those of VPAs that were deleted too long ago.
func (s *soaking) countSeries(m map[string]float64, out *soak.Sample) {
	out.SeriesOf = make(map[string]int)
	for series := range m {
		name, namespace := nameLabel.FindStringSubmatch(series), namespaceLabel.FindStringSubmatch(series)
		if name != nil && namespace != nil && s.server.Get("autoscaling.k8s.io/verticalpodautoscalers", namespace[1], name[1]) == nil {
			id := namespace[1] + "/" + name[1]
			if s.deleted[id].IsZero() {
				s.deleted[id] = time.Now()
			}
			out.SeriesOfDeleted++
			if time.Since(s.deleted[id]) > servedFor {
				out.OverdueSeries++
			}
			continue
		}
		out.Series++
		metric, _, _ := strings.Cut(series, "{")
		out.SeriesOf[metric]++
	}
}

func (s *soaking) count(resource string) int { return len(s.server.List(resource, "")) }

// The share of the usage around which a container moves that its recommendation may have. Usage is 0.35 to 1 of it for CPU, and 0.77 to 0.98 for memory. Small
// containers get at least the least that is recommended for a pod.
const (
	leastShare, greatestShare = 0.2, 4
	smallest, smallestBytes   = 50, 600 << 20
)

// judgeRecommendations checks that recommendations are in proportion to the usage, also after wrong measurements.
func (s *soaking) judgeRecommendations() {
	for _, o := range s.server.List("autoscaling.k8s.io/verticalpodautoscalers", "") {
		w, ok := s.fleet.WorkloadOf(o.Namespace, o.Name)
		target := targetOf(o)
		if !ok || target == nil {
			continue
		}
		cpu, memory := float64(target.Cpu().MilliValue()), float64(target.Memory().Value())
		if cpu < leastShare*w.Millicores || cpu > max(smallest, greatestShare*w.Millicores) || memory < leastShare*w.Bytes || memory > max(smallestBytes, greatestShare*w.Bytes) {
			s.checker.Violate(soak.Suits, time.Now(), "VPA "+o.Namespace+"/"+o.Name,
				fmt.Sprintf("%.0fm CPU and %.0f MiB are recommended, and the usage moves around %.0fm and %.0f MiB", cpu, memory/mebibyte, w.Millicores, w.Bytes/mebibyte))
		}
	}
}

// targetOf returns the target of the first container of a VPA, nil if it has no recommendation.
func targetOf(o *apiserver.Object) *corev1.ResourceList {
	var v struct {
		Status struct {
			Recommendation struct {
				ContainerRecommendations []struct {
					ContainerName string
					Target        corev1.ResourceList
				}
			}
		}
	}
	if json.Unmarshal(o.JSON(), &v) != nil {
		return nil
	}
	for _, c := range v.Status.Recommendation.ContainerRecommendations {
		if c.ContainerName == "app" {
			return &c.Target
		}
	}
	return nil
}

// watch observes podfit each second: completed passes, writes, its log, and that it does not end.
func (s *soaking) watch(ctx context.Context) {
	before := 0
	for sleep(ctx, time.Second) == nil {
		if m, err := s.metrics(ctx); err == nil {
			s.checker.Passed(time.UnixMilli(int64(1000 * m[`podfit_pass_last_success_timestamp_seconds{loop="recommender"}`])))
		}
		writes, _ := s.server.Counts().Writes()
		s.checker.Writes(time.Now(), writes-before)
		before = writes
		s.readLog()
		p, _, _, killed := s.current()
		if p.Running() || killed {
			continue
		}
		s.checker.Violate(soak.Recovers, time.Now(), "podfit", fmt.Sprintf("the process ended by itself: %v", p.Err()), p.Tail(20))
		if err := s.start(); err != nil {
			s.say("cannot start podfit again: %v", err)
			return
		}
	}
}

// alarms are texts of logs that a defect of podfit has caused.
var alarms = []string{"panic", "fatal error:"}

// readLog looks for alarms in the new lines of the log.
func (s *soaking) readLog() {
	f, err := os.Open(s.logFile())
	if err != nil {
		return
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, s.read, 1<<40))
	end := strings.LastIndexByte(string(text), '\n') + 1
	if err != nil || end == 0 {
		return
	}
	s.read += int64(end)
	lines := strings.Split(string(text[:end]), "\n")
	for i, line := range lines {
		if slices.ContainsFunc(alarms, func(alarm string) bool { return strings.Contains(line, alarm) }) {
			s.checker.Violate(soak.NoPanic, time.Now(), "log of podfit", line, strings.Join(lines[i:min(len(lines), i+30)], "\n"))
			return
		}
	}
}

// conclude completes the report.
func (s *soaking) conclude() {
	s.readLog()
	s.checker.Judge(time.Now())
	s.report.Minutes = time.Since(s.report.Began).Minutes()
	s.report.Comparisons = soak.Compare(s.report.Samples)
	s.report.Actions = s.checker.Count()
	s.report.MostWrites = s.checker.BusiestMinute()
	s.report.Violations = append(s.checker.Violations(), soak.Grown(s.report.Samples)...)
}
