// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/test/transcript"
)

// scene is the state of a transcript (see package transcript). The commands:
//
//	profile NAME BASE [of-node=F]   creates or changes a SizingProfile: it has the parameters of a built-in profile, or of the default
//	                                profile with samples weighted by request (BASE by-request)
//	invalid NAME PROBLEM            makes a SizingProfile invalid
//	delete NAME                     deletes a SizingProfile
//	vpa NAME WORKLOAD [profile=P] [mode=M]   creates or changes an autoscaler
//	status NAME [cpu=C] [also=CONTAINER] [problem=R]   sets its status: the recommendation for container app, and for one without
//	                                history; the reason of SizingProfileUsable
//	remove NAME                     deletes an autoscaler
//	node NAME MILLICORES            creates a node, or deletes it if its CPU is 0
//	pods WORKLOAD COUNT             sets the pods of a workload; all have the container app
//	after DURATION                  time passes, with a sample per pod and a pass every ten minutes
//	restart [lost|half-lost]        starts a new process; stored history is kept, lost, or its model state is lost
//	backfill NAMESPACE              starts a new process that reads usage history instead of stored history, which is complete at once
//	pass                            makes a pass and prints the State of each workload, and the profile of each autoscaler
type scene struct {
	now         time.Time
	catalog     *Catalog
	workloads   Workloads
	store       *usage.Store
	existing    map[string]bool // SizingProfiles in the cluster
	version     int
	autoscalers []*cluster.Autoscaler
	pods        map[string][]*cluster.Pod // by workload
	nodes       []cluster.Node
	stored      map[usage.Ref]usage.Checkpoint // not yet restored, without model state
	modelStates map[usage.Ref]usage.History    // stored and not yet restored
}

func newScene() *scene {
	s := &scene{
		now:      time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC),
		existing: map[string]bool{}, pods: map[string][]*cluster.Pod{},
		stored: map[usage.Ref]usage.Checkpoint{}, modelStates: map[usage.Ref]usage.History{},
	}
	s.start()
	return s
}

// start starts a new process.
func (s *scene) start() {
	s.catalog = NewCatalog(recommend.DefaultParams(), false)
	s.workloads = Workloads{}
	s.store = usage.NewStore(usage.DefaultConfig())
}

func TestWorkloads_transcripts_areUnchanged(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(*testing.T) transcript.Command { return newScene().command })
}

func (s *scene) command(fields []string, out *strings.Builder) error {
	options := map[string]string{}
	var args []string
	for _, field := range fields[1:] {
		if name, value, ok := strings.Cut(field, "="); ok {
			options[name] = value
		} else {
			args = append(args, field)
		}
	}
	switch fields[0] {
	case "profile":
		return s.profile(args[0], args[1], options)
	case "invalid":
		s.version++
		s.existing[args[0]] = true
		s.catalog.LearnInvalid(args[0], strconv.Itoa(s.version), strings.Join(args[1:], " "))
	case "delete":
		delete(s.existing, args[0])
	case "vpa":
		return s.vpa(args[0], args[1], options)
	case "status":
		return s.status(args[0], options)
	case "remove":
		s.autoscalers = slices.DeleteFunc(s.autoscalers, func(a *cluster.Autoscaler) bool { return a.Name == args[0] })
	case "node":
		return s.node(args[0], args[1])
	case "pods":
		return s.setPods(args[0], args[1])
	case "after":
		duration, err := time.ParseDuration(args[0])
		for end := s.now.Add(duration); s.now.Before(end); {
			s.now = s.now.Add(10 * time.Minute)
			s.pass()
		}
		return err
	case "restart":
		s.restart(slices.Contains(args, "lost"), slices.Contains(args, "half-lost"))
	case "backfill":
		s.restart(true, false)
		s.pass()
		s.workloads.SkipRestore()
		s.workloads.EndHolds(args[0])
	case "pass":
		snapshot, assignments := s.pass()
		s.print(out, snapshot, assignments)
	default:
		return fmt.Errorf("unknown command %q", fields[0])
	}
	return nil
}

func (s *scene) profile(name, base string, options map[string]string) error {
	p, ok := recommend.Builtin(base)
	if base == "by-request" {
		params := recommend.DefaultParams()
		params.WeightByRequest = true
		p = recommend.DefaultProfile(name, "", params)
	} else if !ok {
		return fmt.Errorf("unknown base %q", base)
	}
	p.Name = name
	if share := options["of-node"]; share != "" {
		var err error
		if p.MostOfNode, err = strconv.ParseFloat(share, 64); err != nil {
			return err
		}
	}
	s.version++
	s.existing[name] = true
	s.catalog.Learn(name, strconv.Itoa(s.version), p)
	return nil
}

func (s *scene) vpa(name, workload string, options map[string]string) error {
	mode, ok := cluster.ParseMode(options["mode"])
	if !ok {
		return fmt.Errorf("unknown mode %q", options["mode"])
	}
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: name}, Created: s.now}
	if i := slices.IndexFunc(s.autoscalers, func(a *cluster.Autoscaler) bool { return a.Name == name }); i >= 0 {
		*a = *s.autoscalers[i]
		s.autoscalers[i] = a
	} else {
		s.now = s.now.Add(time.Second)
		s.autoscalers = append(s.autoscalers, a)
	}
	a.Target = target(workload)
	a.Mode = mode
	a.Recommender = options["profile"]
	return nil
}

func (s *scene) status(name string, options map[string]string) error {
	for _, a := range s.autoscalers {
		if a.Name != name {
			continue
		}
		a.ProfileProblem = options["problem"]
		a.Advice = nil
		if options["cpu"] == "" {
			return nil
		}
		cpu, err := strconv.ParseInt(options["cpu"], 10, 64)
		a.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(cpu, 200<<20)}}}
		if also := options["also"]; also != "" {
			a.Advice = append(a.Advice, cluster.Advice{Container: also, Estimate: a.Advice[0].Estimate})
			slices.SortFunc(a.Advice, func(x, y cluster.Advice) int { return strings.Compare(x.Container, y.Container) })
		}
		return err
	}
	return fmt.Errorf("unknown autoscaler %q", name)
}

func (s *scene) node(name, cpu string) error {
	millicores, err := strconv.ParseInt(cpu, 10, 64)
	s.nodes = slices.DeleteFunc(s.nodes, func(n cluster.Node) bool { return n.Name == name })
	if millicores > 0 {
		s.nodes = append(s.nodes, cluster.Node{Name: name, Allocatable: cluster.Amounts(millicores, 16<<30), Ready: true})
	}
	return err
}

func (s *scene) setPods(workload, count string) error {
	n, err := strconv.Atoi(count)
	s.pods[workload] = nil
	for i := range n {
		name := fmt.Sprint(workload, "-", i)
		s.pods[workload] = append(s.pods[workload], &cluster.Pod{
			Key: cluster.Key{Namespace: "shop", Name: name}, UID: name, Top: target(workload), Controller: target(workload),
			Phase: cluster.Running, Created: s.now, Containers: []cluster.Container{{Name: "app"}},
		})
	}
	return err
}

func target(name string) cluster.Workload {
	return cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
}

// restart starts a new process, which has read the existing SizingProfiles.
func (s *scene) restart(lost, modelStateLost bool) {
	before := s.catalog
	for _, w := range s.targets() {
		for _, container := range s.store.Containers(w) {
			ref := usage.Ref{Workload: w, Container: container}
			checkpoint, ok := s.store.Checkpoint(w, container, s.now)
			if !ok {
				continue
			}
			if len(checkpoint.History.Data) > 0 {
				s.modelStates[ref] = checkpoint.History
			}
			checkpoint.History = usage.History{}
			s.stored[ref] = checkpoint
		}
	}
	if lost {
		clear(s.stored)
	}
	if lost || modelStateLost {
		clear(s.modelStates)
	}
	s.start()
	for _, name := range slices.Sorted(maps.Keys(s.existing)) {
		d := before.profiles[name]
		if d.problem != "" {
			s.catalog.LearnInvalid(name, d.version, d.problem)
			continue
		}
		s.catalog.Learn(name, d.version, d.valid.Profile)
	}
}

// targets returns the targets of the autoscalers, sorted.
func (s *scene) targets() []cluster.Workload {
	var targets []cluster.Workload
	for _, a := range s.autoscalers {
		targets = append(targets, a.Target)
	}
	slices.SortFunc(targets, cluster.Workload.Compare)
	return slices.Compact(targets)
}

// pass makes a pass as the recommender does, and adds samples.
func (s *scene) pass() (*cluster.Snapshot, Assignments) {
	s.store.Tick(s.now)
	var pods []*cluster.Pod
	for _, of := range s.pods {
		pods = append(pods, of...)
	}
	snapshot := cluster.NewSnapshot(pods, slices.Clone(s.autoscalers))
	s.catalog.Listed(slices.Sorted(maps.Keys(s.existing)))
	s.catalog.Forget(s.now, snapshot.Autoscalers)
	s.catalog.ReadStatuses(snapshot.Autoscalers)
	governing := map[cluster.Workload]*cluster.Autoscaler{}
	for _, w := range s.targets() {
		served := slices.DeleteFunc(slices.Clone(snapshot.AutoscalersOf(w)), func(a *cluster.Autoscaler) bool {
			return a.Recommender != "" && !s.catalog.Contains(a)
		})
		first := cluster.Governing(served, false)
		if first == nil {
			first = cluster.Oldest(served)
		}
		if first != nil {
			governing[w] = first
		}
	}
	assignments := s.catalog.Assign(snapshot, governing)
	var nodes *fleet.Nodes
	if assignments.NodeBound() {
		nodes = fleet.NewNodes(s.nodes, nil)
	}
	s.workloads.Apply(s.store, s.now, snapshot, assignments, nodes)
	for ref, checkpoint := range s.stored {
		if governing[ref.Workload] == nil {
			continue
		}
		if s.store.Extended(ref.Workload) {
			checkpoint.History = s.modelStates[ref]
			delete(s.modelStates, ref)
		}
		_ = s.store.Restore(ref.Workload, ref.Container, checkpoint) // model state of another form is an error
		delete(s.stored, ref)
	}
	for ref, history := range s.modelStates {
		if s.store.Extended(ref.Workload) {
			_ = s.store.Recall(ref.Workload, history) // likewise
			delete(s.modelStates, ref)
		}
	}
	for _, w := range s.workloads.Restoring() {
		s.workloads.Restored(s.store, s.now, w, governing[w])
	}
	for _, p := range snapshot.Pods {
		s.store.Track(p)
		s.store.Observe(usage.Sample{Pod: p.Key, Container: "app", At: s.now, CPU: 0.3, Memory: 200 << 20, Has: cluster.Both})
	}
	return snapshot, assignments
}

// print prints the State of each workload, and the profile of each autoscaler.
func (s *scene) print(out *strings.Builder, snapshot *cluster.Snapshot, assignments Assignments) {
	var known []cluster.Workload
	for w := range s.workloads {
		known = append(known, w)
	}
	slices.SortFunc(known, cluster.Workload.Compare)
	if len(known) == 0 {
		fmt.Fprintln(out, "no workloads")
	}
	for _, w := range known {
		state := s.workloads.State(w)
		fmt.Fprintf(out, "%s: profile %s #%d, %s", w.Name, state.Edition.Name, state.Edition.Number, s.modelState(w))
		if state.Node.Allocatable > 0 {
			fmt.Fprintf(out, ", smallest node %dm", state.Node.Allocatable)
		}
		if !state.HoldUntil.IsZero() {
			fmt.Fprintf(out, ", held for %v", state.HoldUntil.Sub(s.now))
		}
		if !state.UnreferencedSince.IsZero() {
			fmt.Fprintf(out, ", unreferenced for %v", s.now.Sub(state.UnreferencedSince))
		}
		fmt.Fprintln(out)
	}
	for _, a := range snapshot.Autoscalers {
		choice := s.catalog.Of(a)
		fmt.Fprintf(out, "  vpa %s: ", a.Name)
		switch conflict, conflicts := assignments.Conflict(a, choice); {
		case a.Recommender != "" && !s.catalog.Contains(a):
			fmt.Fprintln(out, "not served")
			continue
		case conflicts:
			problem := ConflictProblem(a, choice, conflict)
			fmt.Fprintf(out, "%s: %s\n", problem.Reason, problem.Message)
			continue
		case !choice.Usable:
			fmt.Fprint(out, "no usable profile")
		default:
			fmt.Fprintf(out, "sized by %s", choice.Profile.Name)
		}
		if most := s.workloads.Profile(choice, a.Target).Node.Most(); most > 0 {
			fmt.Fprintf(out, ", at most %dm", most)
		}
		if s.workloads.AwaitsNode(choice, a.Target) {
			fmt.Fprint(out, ", awaits a node")
		}
		if s.workloads.Held(choice, a.Target, s.now) {
			fmt.Fprint(out, ", held")
		}
		for _, problem := range []Problem{s.catalog.Problem(a), ModeProblem(a, choice)} {
			if problem.Reason != "" {
				fmt.Fprintf(out, "\n    %s: %s", problem.Reason, problem.Message)
			}
		}
		fmt.Fprintln(out)
	}
}

// modelState describes the model state of a workload.
func (s *scene) modelState(w cluster.Workload) string {
	if !s.store.Extended(w) {
		return "no model state"
	}
	history := s.store.Series(w, "app")
	if history == nil || history.Extension() == nil || history.Extension().Since().IsZero() {
		return "empty model state"
	}
	return fmt.Sprintf("model state %s of %v", history.Extension().Form(), s.now.Sub(history.Extension().Since()).Truncate(time.Hour))
}
