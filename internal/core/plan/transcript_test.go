// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/placement"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/rescue"
	"podfit.dev/podfit/internal/core/room"
	"podfit.dev/podfit/test/transcript"
)

// script is the state of a transcript (see package transcript). The commands:
//
//	pods NS/NAME COUNT [kind=K] [template=...] CONTAINER [/ CONTAINER]...  a workload, by default a Deployment whose
//	                              pods are 1h old, Ready and on a node; CONTAINER is: name RESOURCES [limits RESOURCES]
//	pod NS/POD OPTION...          changes one pod: age=D pending unready[=D, and it runs] unscheduled deleting finished ownerless
//	                              oom=LIVED/AGO[/now] resize=STATE/D[/message] observed=A,B restart=memory
//	                              crash=KILLS[/data]: not ready because of KILLS OOM kills in a row, after oom=; with a data volume
//	                              selector=KEY=VALUE affinity tolerates=KEY[=VALUE]:[EFFECT]
//	                              node=NAME priority=N local-data tied protected starts=D: how long it took to become ready
//	                              asks=R runs=R boosted=R: the first container's spec, what runs, and what it had
//	                              before its boost; R is RESOURCES and limits, with commas
//	scale NS/NAME N|unknown|none  what the workload's direct controller says of its replicas
//	autoscale NS/NAME [mode=M] [age=D] [min-replicas=N] [require=higher:memory[,cpu]]... [oom=D] [boost=D] [make-room=VALUE] [ignore=rescue|always]
//	advise NS/NAME CONTAINER RESOURCES [lower RESOURCES] [upper RESOURCES] [limit RESOURCES]   bounds are half and twice the target; with a
//	                              limit, memory limits are by peaks
//	policy NS/NAME CONTAINER [off] [requests-only] [min RESOURCES] [max RESOURCES]
//	range NS pod|container [min RESOURCES] [max RESOURCES] [default RESOURCES]
//	node NAME RESOURCES [cordoned] [label=KEY=VALUE]... [taint=KEY=VALUE]...   taints have the effect NoSchedule
//	new-node RESOURCES [taint=KEY=VALUE]...   a node that can be added; taints have the effect NoSchedule
//	groups N|free                 how many of these nodes can be added for each line new-node; free: it is not known
//	daemon NAME RESOURCES         a DaemonSet with pods on all nodes without taints
//	pdb NS/NAME HEALTHY DESIRED [always] [outdated] [app=NAME]   a PodDisruptionBudget for the pods of a workload, by default NAME
//	budget OPTION...              skip-in-place in-place per-vpa boost any-size fit-nodes min-replicas=N tolerance=F rescue=off|evict|delete make-room=VALUE
//	after D                       time passes
//	plan [NS/NAME]...             prints the decisions, of the given autoscalers if any are given
//	do [webhook=off]              executes them: pods are resized, evicted ones replaced; new ones are not ready
//	try [NS/NAME]...              is do, for the given autoscalers if any are given, and prints every attempt and its outcome
//	api NS/POD ACT=ANSWER...      what the API server answers from now on; ACT is evict, delete, resize, reserve or release, ANSWER is ok, denied,
//	                              budget, node, quota, unsupported, webhook, busy, lost (no answer, not carried out),
//	                              late (no answer, carried out), unseen (carried out, but the watch does not show it),
//	                              gone or limited (the rate limit allows no more); NS/* is all pods of NS
//	replacements on|off           whether evicted pods are replaced
//	ready                         every pod runs and is ready
//	kubelet                       the kubelet does the resizes on the nodes that have room, and defers the others
//	provider off|none|placeholders|requests|both  how capacity is asked for before an eviction
//	autoscaler accepts|provides|fails TEXT        what the cluster autoscaler does about headroom.ProvisioningRequests
//	scheduler                     places the pods without a node where there is room
//	lose NS/POD                   another client deletes the request for capacity for a pod
//	rooms                         prints the plans for nodes that are too full
type script struct {
	now         time.Time
	budget      Budget
	ledger      *ledger.Ledger
	as          []*cluster.Autoscaler
	pods        []*cluster.Pod
	template    map[cluster.Workload][]cluster.Container
	scales      map[cluster.Workload]cluster.Scale
	limits      map[string]policy.Limits
	nodes       []cluster.Node
	answers     map[string]string // of the API server, by pod and act
	selects     []cluster.NodeSelector
	tolerations []cluster.Tolerations
	budgets     map[string][]cluster.DisruptionBudget
	fit         bool // pods are scaled down to the nodes
	newNodes    []cluster.NewNode
	daemons     []cluster.Daemon
	provider    headroom.Provider
	requests    []cluster.CapacityRequest
	lazy        bool // evicted pods are not replaced
	born        int
}

func newScript() *script {
	b := DefaultBudget()
	b.EvictionBackoff = 5 * time.Minute // so that the transcripts are short
	return &script{
		now:      time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC),
		budget:   b,
		ledger:   ledger.New(),
		template: map[cluster.Workload][]cluster.Container{},
		scales:   map[cluster.Workload]cluster.Scale{},
		limits:   map[string]policy.Limits{},
		answers:  map[string]string{},
		budgets:  map[string][]cluster.DisruptionBudget{},
	}
}

func TestPlan_transcripts_areUnchanged(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(*testing.T) transcript.Command { return newScript().command })
}

func (s *script) command(f []string, out *strings.Builder) error {
	commands := map[string]func([]string) error{
		"pods": s.addPods, "pod": s.changePod, "scale": s.setScale, "autoscale": s.addAutoscaler,
		"advise": s.setRecommendation, "policy": s.setPolicy, "range": s.setLimitRange, "pdb": s.setPDB, "node": s.addNode, "new-node": s.addNewNode, "daemon": s.addDaemon, "budget": s.setBudget,
		"after": s.advanceTime, "ready": s.markReady, "kubelet": s.runKubelet,
		"provider": s.setProvider, "scheduler": s.scheduleAll, "lose": s.losePlaceholder, "autoscaler": s.provision,
		"rooms": func([]string) error {
			for _, p := range Begin(s.now, s.world(), s.budget).Rooms {
				out.WriteString(p.Table())
			}
			return nil
		},
		"plan": func(f []string) error { s.print(s.plan(), f, out); return nil },
		"do": func(f []string) error {
			s.execute(nil, !slices.Contains(f, "webhook=off"), io.Discard)
			return nil
		},
		"try": func(f []string) error {
			s.execute(f, true, out)
			return nil
		},
		"api": s.setResponses,
		"groups": func(f []string) error {
			more, err := strconv.Atoi(f[0])
			for i := range s.newNodes {
				s.newNodes[i].NodeGroup = cluster.NodeGroup{Name: fmt.Sprint("group-", i), Counted: err == nil, More: more}
			}
			return nil
		},
		"replacements": func(f []string) error { s.lazy = f[0] == "off"; return nil },
	}
	c, ok := commands[f[0]]
	if !ok {
		return fmt.Errorf("unknown command %q", f[0])
	}
	return c(f[1:])
}

func (s *script) world() World {
	return World{
		Governed: cluster.Gather(s.as, s.pods, true), Limits: s.limits, Scales: s.scales, Nodes: s.nodes, Selectors: s.selects,
		Tolerations: s.tolerations, Budgets: s.budgets, Ledger: s.ledger, Pods: slices.Clone(s.pods), Fleet: s.fleet(), Provider: s.provider, Requests: s.requests,
	}
}

func (s *script) fleet() *fleet.Fleet {
	return fleet.New(fleet.Config{
		Nodes: s.nodes, Daemons: s.daemons, Selectors: s.selects, Tolerations: s.tolerations, New: s.newNodes, Unscaled: !s.fit,
	})
}

func (s *script) addNewNode(f []string) error {
	before := s.nodes
	err := s.addNode(append([]string{"new"}, f...))
	n := s.nodes[len(before)]
	s.nodes = before
	s.newNodes = append(s.newNodes, cluster.NewNode{Size: n.Allocatable, Taints: n.Taints})
	return err
}

func (s *script) addDaemon(f []string) error {
	r, err := splitSections(f[1:], "")
	s.daemons = append(s.daemons, cluster.Daemon{Key: cluster.Key{Namespace: "kube-system", Name: f[0]}, Requests: r[""]})
	return err
}

// plan plans twice, the second time with everything shuffled, and insists on the same decisions.
func (s *script) plan() []decision.Decision {
	ds := Plan(s.now, s.world(), s.budget)
	shuffled := s.world()
	r := rand.New(rand.NewPCG(1, uint64(len(ds))))
	shuffle(r, &shuffled)
	if again := Plan(s.now, shuffled, s.budget); formatDecisions(again) != formatDecisions(ds) {
		panic("another order of the world gives another plan:\n" + formatDecisions(ds) + "\n" + formatDecisions(again))
	}
	return ds
}

func shuffle(r *rand.Rand, w *World) {
	r.Shuffle(len(w.Governed), func(i, j int) { w.Governed[i], w.Governed[j] = w.Governed[j], w.Governed[i] })
	for _, g := range w.Governed {
		r.Shuffle(len(g.Pods), func(i, j int) { g.Pods[i], g.Pods[j] = g.Pods[j], g.Pods[i] })
	}
	r.Shuffle(len(w.Pods), func(i, j int) { w.Pods[i], w.Pods[j] = w.Pods[j], w.Pods[i] })
	r.Shuffle(len(w.Nodes), func(i, j int) { w.Nodes[i], w.Nodes[j] = w.Nodes[j], w.Nodes[i] })
}

func formatDecisions(ds []decision.Decision) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "%s %s %s %v %v\n", d.Pod.Key, d.Do, reasonData(d.Reason), d.Fallback, d.Unboost)
	}
	return b.String()
}

func (s *script) print(ds []decision.Decision, only []string, out *strings.Builder) {
	ds = slices.DeleteFunc(ds, func(d decision.Decision) bool {
		return len(only) > 0 && !slices.Contains(only, d.Autoscaler.Key.String())
	})
	width := 0
	for _, d := range ds {
		width = max(width, len(d.Pod.Key.String()))
	}
	for _, d := range ds {
		act := d.Do.String()
		if d.Fallback {
			act += "/evict"
		}
		fmt.Fprintf(out, "%-*s  %-12s  %s", width, d.Pod.Key, act, reasonData(d.Reason))
		if d.Do == decision.Leave && d.Wanted.Code != decision.Fits {
			fmt.Fprintf(out, " (%s)", reasonData(d.Wanted))
		}
		if len(d.Unboost) > 0 {
			fmt.Fprintf(out, " (unboost %s)", strings.Join(d.Unboost, ", "))
		}
		out.WriteString("\n")
	}
}

// execute does what the plan says, as the cluster would, and prints what is tried.
func (s *script) execute(only []string, webhook bool, out io.Writer) {
	s.plan() // for its checks
	pass := Begin(s.now, s.world(), s.budget)
	pass.Learn()
	for _, short := range pass.Shortages() {
		fmt.Fprintf(out, "%s: %d of %d pods exist\n", short.Controller, short.Present, short.Wanted)
	}
	todo := slices.DeleteFunc(slices.Clone(pass.Decisions()), func(d decision.Decision) bool {
		return d.Do == decision.Leave || len(only) > 0 && !slices.Contains(only, d.Autoscaler.Key.String())
	})
	s.executeCapacity(pass, out)
	for len(todo) > 0 {
		d := todo[0]
		answer := s.response(d)
		fmt.Fprintf(out, "%s %s: %s\n", d.Do, d.Pod.Key, answer)
		todo = append(s.reportOutcome(pass, d, answer, webhook), todo[1:]...)
	}
}

func (s *script) response(d decision.Decision) string {
	for _, pod := range []string{d.Pod.Key.String(), d.Pod.Namespace + "/*"} {
		if a := s.answers[pod+" "+d.Do.String()]; a != "" {
			return a
		}
	}
	return "ok"
}

func (s *script) setResponses(f []string) error {
	for _, option := range f[1:] {
		act, answer, _ := strings.Cut(option, "=")
		s.answers[f[0]+" "+act] = answer
	}
	return nil
}

var refusalKinds = map[string]decision.RefusalKind{
	"denied": decision.Denied, "budget": decision.DeniedByBudget, "node": decision.DeniedByNode, "quota": decision.DeniedByQuota, "webhook": decision.WebhookFailed, "unsupported": decision.Unsupported,
	"busy": decision.ServerBusy, "lost": decision.OutcomeIsUnknown, "late": decision.OutcomeIsUnknown,
}

// reportOutcome carries out a decision as the API server answers, and returns what the pass wants done instead.
func (s *script) reportOutcome(pass *Pass, d decision.Decision, answer string, webhook bool) []decision.Decision {
	if answer == "ok" || answer == "late" {
		defer s.apply(d, webhook)
	}
	if answer == "ok" && d.Request != nil {
		defer s.remove(d.Request.Key)
	}
	switch answer {
	case "ok", "unseen":
		pass.Done(d)
		return nil
	case "gone":
		pass.Gone(d)
		return nil
	case "limited":
		return pass.Stopped(d, decision.Reason{Code: decision.RateLimited})
	}
	return pass.Refused(d, decision.Refusal{Kind: refusalKinds[answer], Text: answer})
}

func (s *script) apply(d decision.Decision, webhook bool) {
	switch {
	case d.Do != decision.Resize && s.lazy:
		s.pods = slices.DeleteFunc(s.pods, func(p *cluster.Pod) bool { return p == d.Pod })
	case d.Do != decision.Resize:
		s.replace(d, webhook)
	case slices.ContainsFunc(s.nodes, func(n cluster.Node) bool { return n.Name == d.Pod.Node }):
		setDesired(d.Pod, d.With)
	default:
		setRequests(d.Pod, d.With)
		for _, c := range d.Unboost {
			d.Pod.Container(c).Boosted = nil
		}
	}
}

func setRequests(p *cluster.Pod, fits []policy.Fitted) {
	for _, f := range fits {
		c := p.Container(f.Container)
		c.Requests, c.Limits, c.Applied = f.Requests.Or(c.Requests), f.Limits.Or(c.Limits), nil
	}
}

// setDesired sets what the spec asks for. The pod runs with what it has until the kubelet has resized it.
func setDesired(p *cluster.Pod, fits []policy.Fitted) {
	for _, f := range fits {
		c := p.Container(f.Container)
		requests, limits := c.Running()
		c.Requests, c.Limits = f.Requests.Or(c.Requests), f.Limits.Or(c.Limits)
		if c.Applied = nil; c.Requests != requests || c.Limits != limits {
			c.Applied = &cluster.Applied{Requests: requests, Limits: limits}
		}
	}
}

// runKubelet does the resizes on each node: first those that give room back, then the others by name.
func (s *script) runKubelet([]string) error {
	for _, n := range s.nodes {
		free := room.Of(n.Allocatable)
		var waiting []*cluster.Pod
		for _, p := range s.pods {
			if p.Node != n.Name {
				continue
			}
			free = free.Sub(placement.Sum(p, true))
			if slices.ContainsFunc(p.Containers, func(c cluster.Container) bool { return c.Applied != nil }) {
				waiting = append(waiting, p)
			}
		}
		slices.SortFunc(waiting, compareByResize)
		for _, p := range waiting {
			increase := room.Of(change.Total(p, nil)).Sub(placement.Sum(p, true))
			if !free.Holds(increase) {
				if !p.IsDeferred() {
					p.Resize = &cluster.Resize{State: cluster.ResizeDeferred, Since: s.now}
				}
				continue
			}
			free = free.Sub(increase)
			p.Resize = nil
			for i := range p.Containers {
				p.Containers[i].Applied = nil
			}
		}
	}
	return nil
}

func compareByResize(a, b *cluster.Pod) int {
	more := func(p *cluster.Pod) int {
		if placement.Sum(p, true).Holds(room.Of(change.Total(p, nil))) {
			return 0
		}
		return 1
	}
	return cmp.Or(more(a)-more(b), a.Compare(b.Key))
}

func (s *script) replace(d decision.Decision, webhook bool) {
	old := d.Pod
	s.born++
	p := &cluster.Pod{
		Key: cluster.Key{Namespace: old.Namespace, Name: fmt.Sprintf("%s.%d", strings.SplitN(old.Name, ".", 2)[0], s.born)},
		UID: fmt.Sprintf("uid-%d", s.born), Controller: old.Controller, Top: old.Top, Node: old.Node, Created: s.now,
		Started: s.now, ReadySince: s.now, Phase: cluster.Pending,
		Containers: slices.Clone(s.template[old.Top]),
	}
	if p.Node == "" {
		p.Node = "somewhere"
	}
	if webhook {
		p.Place, p.Tolerance = old.Place, old.Tolerance
		limits := s.limits[p.Namespace]
		limits.Nodes = s.fleet().Of(p)
		setRequests(p, policy.Fit(d.Autoscaler, limits, p))
	}
	s.pods[slices.Index(s.pods, old)] = p
	s.schedule(p)
}

// schedule places a replacement on the first node that has room, if its predecessor was on one of the nodes.
func (s *script) schedule(p *cluster.Pod) {
	if !slices.ContainsFunc(s.nodes, func(n cluster.Node) bool { return n.Name == p.Node }) {
		return
	}
	p.Node = ""
	for _, n := range s.nodes {
		free := room.Of(n.Allocatable)
		for _, o := range s.pods {
			if o.Node == n.Name {
				free = free.Sub(placement.Counted(o))
			}
		}
		if free.Holds(placement.Counted(p)) {
			p.Node = n.Name
			return
		}
	}
}

func (s *script) advanceTime(f []string) error {
	d, err := time.ParseDuration(f[0])
	s.now = s.now.Add(d)
	return err
}

func (s *script) markReady([]string) error {
	for _, p := range s.pods {
		if !p.Ready {
			p.Phase, p.Ready, p.ReadySince, p.Crash = cluster.Running, true, s.now, nil
		}
	}
	return nil
}

func (s *script) addPods(f []string) error {
	key, count := parseKey(f[0]), 0
	if _, err := fmt.Sscan(f[1], &count); err != nil {
		return err
	}
	top := cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: key.Namespace, Name: key.Name}
	rest := f[2:]
	if kind, ok := strings.CutPrefix(rest[0], "kind="); ok {
		top.Kind, top.Group, _ = strings.Cut(kind, ".")
		rest = rest[1:]
	}
	controller := top
	if top.Kind == "Deployment" {
		controller.Kind, controller.Name = "ReplicaSet", top.Name+"-7d4"
	}
	var containers []cluster.Container
	for i, part := range split(rest, "/") {
		r, err := splitSections(part[1:], "", "limits")
		if err != nil {
			return err
		}
		containers = append(containers, cluster.Container{
			Name: part[0], Index: uint8(i), Requests: r[""], Limits: r["limits"],
		})
	}
	s.template[top] = containers
	s.scales[controller] = cluster.Scale{Known: true, Replicas: int32(count)}
	for i := range count {
		name := fmt.Sprintf("%s-%d", key.Name, i)
		s.pods = append(s.pods, &cluster.Pod{
			Key: cluster.Key{Namespace: key.Namespace, Name: name}, UID: "uid-" + key.Namespace + "-" + name,
			Controller: controller, Top: top, Node: "somewhere", Created: s.now.Add(-time.Hour),
			Started: s.now.Add(-time.Hour), ReadySince: s.now.Add(-time.Hour), Phase: cluster.Running, Ready: true,
			Containers: slices.Clone(containers),
		})
	}
	return nil
}

func (s *script) changePod(f []string) error {
	key := parseKey(f[0])
	i := slices.IndexFunc(s.pods, func(p *cluster.Pod) bool { return p.Key == key })
	if i < 0 {
		return fmt.Errorf("no pod %s", key)
	}
	p := s.pods[i]
	first := &p.Containers[0]
	for _, option := range f[1:] {
		name, value, _ := strings.Cut(option, "=")
		parts := strings.Split(value, "/")
		var err error
		ago := func(n int) time.Time {
			d, e := time.ParseDuration(parts[n])
			err = errors.Join(err, e)
			return s.now.Add(-d)
		}
		switch name {
		case "age":
			p.Created = ago(0)
			p.Started = p.Created
		case "pending":
			p.Phase, p.Ready = cluster.Pending, false
		case "unready":
			p.Ready, p.ReadySince = false, s.now
			if value != "" {
				p.Phase, p.ReadySince = cluster.Running, ago(0)
			}
		case "unscheduled":
			p.Node, p.Phase, p.Ready, p.Started = "", cluster.Pending, false, time.Time{}
		case "deleting":
			p.Deleting = true
		case "finished":
			p.Phase = cluster.Succeeded
		case "ownerless":
			p.Controller = cluster.Workload{}
		case "oom":
			e := cluster.Exit{OOM: true, Finished: ago(1), Now: len(parts) > 2}
			lived, perr := time.ParseDuration(parts[0])
			err = errors.Join(err, perr)
			e.Started = e.Finished.Add(-lived)
			first.Exit = &e
		case "crash":
			kills, cerr := strconv.Atoi(parts[0])
			err = errors.Join(err, cerr)
			p.Phase, p.Ready, p.ReadySince = cluster.Running, false, s.now.Add(-time.Minute)
			p.Crash = &cluster.Crash{Version: "1", Labels: []string{"app=" + p.Top.Name}}
			p.OwnVolume = len(parts) > 1
			first.Exit.Kills = uint8(kills)
		case "resize":
			states := map[string]cluster.ResizeState{
				"deferred": cluster.ResizeDeferred, "infeasible": cluster.ResizeInfeasible,
				"in-progress": cluster.ResizeInProgress, "error": cluster.ResizeError, "memory-in-use": cluster.ResizeError, "unknown": cluster.ResizeUnknown,
				"none": cluster.NoResize,
			}
			state, ok := states[parts[0]]
			if !ok {
				return fmt.Errorf("no resize state %q", parts[0])
			}
			if p.Resize = nil; state != cluster.NoResize {
				p.Resize = &cluster.Resize{State: state, Since: ago(1)}
				if parts[0] == "memory-in-use" {
					p.Resize.Problem = cluster.MemoryInUse
				}
				if len(parts) > 2 {
					p.Resize.Message = strings.ReplaceAll(parts[2], "_", " ")
				}
			}
		case "selector":
			s.selects = append(s.selects, cluster.NodeSelector{Labels: []string{value}})
			p.Place = cluster.Selected + cluster.Place(len(s.selects)-1)
		case "node":
			p.Node = value
		case "local-data":
			p.LocalData = true
		case "tied":
			p.Tied = true
		case "protected":
			p.Marks = protected
		case "priority":
			var n int
			n, err = strconv.Atoi(value)
			p.Priority = int32(n)
		case "starts":
			p.Started = p.ReadySince.Add(ago(0).Sub(s.now))
		case "affinity":
			p.Place = cluster.Somewhere
		case "tolerates":
			label, effect, _ := strings.Cut(value, ":")
			k, v, equal := strings.Cut(label, "=")
			s.tolerations = append(s.tolerations, cluster.Tolerations{{Key: k, Value: v, Exists: !equal, Effect: effect}})
			p.Tolerance = cluster.FirstListed + cluster.Tolerance(len(s.tolerations)-1)
		case "observed":
			p.Marks = &cluster.Marks{Observed: new(strings.ReplaceAll(value, ",", ", "))}
		case "restart":
			res, ok := cluster.ParseResource(value)
			if !ok {
				return fmt.Errorf("no resource %q", value)
			}
			first.Restart = first.Restart.With(res)
		case "runs", "boosted":
			var had map[string]cluster.Resources
			had, err = splitSections(strings.Split(value, ","), "", "limits")
			applied := &cluster.Applied{Requests: had[""], Limits: had["limits"]}
			if name == "runs" {
				first.Applied = applied
			} else {
				first.Boosted = applied
			}
		case "asks":
			var now map[string]cluster.Resources
			now, err = splitSections(strings.Split(value, ","), "", "limits")
			first.Requests, first.Limits = now[""], now["limits"]
		default:
			return fmt.Errorf("no option %q", option)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *script) setScale(f []string) error {
	key := parseKey(f[0])
	for _, p := range s.pods {
		if p.Top.Name != key.Name || p.Top.Namespace != key.Namespace {
			continue
		}
		switch f[1] {
		case "unknown":
			delete(s.scales, p.Controller)
			continue
		case "none":
			s.scales[p.Controller] = cluster.Scale{Unscalable: true}
			continue
		}
		n, err := strconv.Atoi(f[1])
		if err != nil {
			return err
		}
		s.scales[p.Controller] = cluster.Scale{Known: true, Replicas: int32(n)}
	}
	return nil
}

func (s *script) addAutoscaler(f []string) error {
	key := parseKey(f[0])
	a := &cluster.Autoscaler{Key: key, Target: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: key.Namespace, Name: key.Name}}
	for _, p := range s.pods {
		if p.Top.Namespace == key.Namespace && p.Top.Name == key.Name {
			a.Target = p.Top
		}
	}
	for _, option := range f[1:] {
		name, value, _ := strings.Cut(option, "=")
		var err error
		switch name {
		case "mode":
			var ok bool
			if a.Mode, ok = cluster.ParseMode(value); !ok {
				return fmt.Errorf("no mode %q", value)
			}
		case "min-replicas":
			var n int
			n, err = strconv.Atoi(value)
			a.MinReplicas = int32(n)
		case "require":
			direction, names, _ := strings.Cut(value, ":")
			r := cluster.EvictionRequirement{Higher: direction == "higher"}
			for _, n := range strings.Split(names, ",") {
				res, ok := cluster.ParseResource(n)
				if !ok {
					return fmt.Errorf("no resource %q", n)
				}
				r.Resources = r.Resources.With(res)
			}
			a.Requirements = append(a.Requirements, r)
		case "oom":
			a.EvictAfterOOM, err = time.ParseDuration(value)
		case "make-room":
			a.MakeRoom = value
		case "ignore":
			a.Rules.IgnoreProtection = value
		case "age":
			var d time.Duration
			d, err = time.ParseDuration(value)
			a.Created = s.now.Add(-d)
		case "boost":
			a.Boost = &cluster.Boost{Factor: 2}
			a.Boost.Duration, err = time.ParseDuration(value)
		default:
			return fmt.Errorf("no option %q", option)
		}
		if err != nil {
			return err
		}
	}
	s.as = slices.DeleteFunc(s.as, func(o *cluster.Autoscaler) bool { return o.Key == key })
	s.as = append(s.as, a)
	return nil
}

func (s *script) autoscaler(name string) (*cluster.Autoscaler, error) {
	for _, a := range s.as {
		if a.Key == parseKey(name) {
			return a, nil
		}
	}
	return nil, fmt.Errorf("no autoscaler %s", name)
}

func (s *script) setRecommendation(f []string) error {
	a, err := s.autoscaler(f[0])
	if err != nil {
		return err
	}
	r, err := splitSections(f[2:], "", "lower", "upper", "limit")
	if err != nil {
		return err
	}
	e := cluster.Estimate{Target: r[""], Lower: r["lower"], Upper: r["upper"]}
	for _, res := range cluster.All {
		if v, ok := e.Target.Get(res); ok {
			e.Lower = e.Lower.Or(cluster.Resources{}.Set(res, v/2))
			e.Upper = e.Upper.Or(cluster.Resources{}.Set(res, v*2))
		}
	}
	a.Advice = slices.DeleteFunc(a.Advice, func(x cluster.Advice) bool { return x.Container == f[1] })
	a.Advice = append(a.Advice, cluster.Advice{Container: f[1], Estimate: e, MemoryLimit: r["limit"].Memory})
	a.MemoryLimits.Peaks = a.MemoryLimits.Peaks || r["limit"].Memory > 0
	return nil
}

func (s *script) setPolicy(f []string) error {
	a, err := s.autoscaler(f[0])
	if err != nil {
		return err
	}
	cp := cluster.ContainerPolicy{Container: f[1]}
	words := slices.DeleteFunc(slices.Clone(f[2:]), func(w string) bool {
		cp.Off = cp.Off || w == "off"
		cp.RequestsOnly = cp.RequestsOnly || w == "requests-only"
		return w == "off" || w == "requests-only"
	})
	r, err := splitSections(words, "", "min", "max")
	cp.MinAllowed, cp.MaxAllowed = r["min"], r["max"]
	a.Policies = append(a.Policies, cp)
	return err
}

func (s *script) setLimitRange(f []string) error {
	r, err := splitSections(f[2:], "", "min", "max", "default")
	if err != nil {
		return err
	}
	l := s.limits[f[0]]
	bound := cluster.Range{Min: r["min"], Max: r["max"], Default: r["default"]}
	if f[1] == "pod" {
		l.Range.Pod = bound
	} else {
		l.Range.Container = bound
	}
	s.limits[f[0]] = l
	return nil
}

func (s *script) addNode(f []string) error {
	n := cluster.Node{Name: f[0], Ready: true}
	words := slices.DeleteFunc(slices.Clone(f[1:]), func(w string) bool {
		label, labelled := strings.CutPrefix(w, "label=")
		taint, tainted := strings.CutPrefix(w, "taint=")
		switch {
		case w == "cordoned":
			n.Cordoned = true
		case labelled:
			n.Labels = append(n.Labels, label)
		case tainted:
			key, value, _ := strings.Cut(taint, "=")
			n.Tainted, n.Taints = true, append(n.Taints, cluster.Taint{Key: key, Value: value, Effect: "NoSchedule"})
		}
		return w == "cordoned" || labelled || tainted
	})
	slices.Sort(n.Labels)
	r, err := splitSections(words, "")
	n.Allocatable = r[""]
	s.nodes = append(s.nodes, n)
	return err
}

func (s *script) setPDB(f []string) error {
	key := parseKey(f[0])
	healthy, err := strconv.Atoi(f[1])
	desired, err2 := strconv.Atoi(f[2])
	b := cluster.DisruptionBudget{Name: key.Name, Healthy: int32(healthy), Desired: int32(desired), Current: true}
	app := key.Name
	for _, option := range f[3:] {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "always":
			b.AlwaysAllow = true
		case "outdated":
			b.Current = false
		case "app":
			app = value
		default:
			return fmt.Errorf("no option %q", option)
		}
	}
	b.Selector.Requirements = []cluster.Requirement{{Prefix: "app=", Values: []string{app}}}
	s.budgets[key.Namespace] = append(slices.DeleteFunc(s.budgets[key.Namespace], func(o cluster.DisruptionBudget) bool { return o.Name == key.Name }), b)
	return errors.Join(err, err2)
}

func (s *script) setBudget(f []string) error {
	for _, option := range f {
		name, value, _ := strings.Cut(option, "=")
		var err error
		switch name {
		case "skip-in-place":
			s.budget.SkipInPlace = true
		case "in-place":
			s.budget.InPlace = true
		case "per-vpa":
			s.budget.PerVPAConfig = true
		case "boost":
			s.budget.StartupBoost = true
		case "any-size":
			s.budget.MustFit = false
		case "fit-nodes":
			s.fit = true
		case "rescue":
			s.budget.Rescue = map[string]rescue.Mode{"evict": rescue.ByEviction, "delete": rescue.ByDeletion}[value]
		case "make-room":
			var ok bool
			if s.budget.MakeRoom, ok = room.ParseAllowed(value); !ok {
				return fmt.Errorf("no value %q", value)
			}
		case "min-replicas":
			s.budget.MinReplicas, err = strconv.Atoi(value)
		case "tolerance":
			s.budget.Tolerance, err = strconv.ParseFloat(value, 64)
		default:
			return fmt.Errorf("no option %q", option)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// splitSections parses amounts; a word that is a name begins a section. The first section has the first name.
func splitSections(words []string, names ...string) (map[string]cluster.Resources, error) {
	out := map[string]cluster.Resources{}
	at := names[0]
	for _, w := range words {
		if slices.Contains(names, w) {
			at = w
			continue
		}
		name, value, ok := strings.Cut(w, "=")
		res, known := cluster.ParseResource(name)
		if !ok || !known {
			return nil, fmt.Errorf("no amount: %q", w)
		}
		v, err := parseAmount(res, value)
		if err != nil {
			return nil, err
		}
		out[at] = out[at].Set(res, v)
	}
	return out, nil
}

func parseAmount(res cluster.Resource, s string) (int64, error) {
	factor := int64(1)
	if res == cluster.CPU {
		factor = 1000
		if n, ok := strings.CutSuffix(s, "m"); ok {
			s, factor = n, 1
		}
	}
	for suffix, size := range map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30} {
		if n, ok := strings.CutSuffix(s, suffix); ok {
			s, factor = n, size
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	return int64(v * float64(factor)), err
}

func parseKey(s string) cluster.Key {
	ns, name, _ := strings.Cut(s, "/")
	return cluster.Key{Namespace: ns, Name: name}
}

func split(words []string, separator string) [][]string {
	out := [][]string{nil}
	for _, w := range words {
		if w == separator {
			out = append(out, nil)
			continue
		}
		out[len(out)-1] = append(out[len(out)-1], w)
	}
	return out
}
