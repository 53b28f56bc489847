// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/gate"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/core/review"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/core/runtimeguard"
	"podfit.dev/podfit/internal/core/wording"
)

// A Situation is a known limit of vertical autoscaling that applies to the subject.
type Situation struct {
	Code   string `json:"code"`  // a stable name for output
	Title  string `json:"title"` // a few words
	Text   string `json:"text"`  // full sentences
	Advice Advice `json:"-"`     // part of Explanation.You
}

// The codes of situations.
const (
	JVM             = "JVM"
	HorizontalScale = "HPA"
	AboveNode       = "AboveNode"
	AboveQuota      = "AboveQuota"
	SingleReplica   = "SingleReplica"
	SmallCPULimit   = "SmallCPULimit"
	Deadlock        = "OOMAndPDB"
	ReplicasDiffer  = "ReplicasDiffer"
	ShortRuns       = "ShortRuns"
	ResizePending   = "ResizePending"
	NodeFull        = "NodeFull"
	SeveralVPAs     = "SeveralVPAs"
	OtherVendor     = "OtherRecommender"
	UpdaterPaused   = "UpdaterPaused"
	Renamed         = "Renamed"
)

// recognizers find the situations, the most urgent first.
var recognizers = []func(*Input) (Situation, bool){
	updaterPaused, deadlock, severalVPAs, otherVendor, pendingResize, fullNode, aboveNode, aboveQuota, singleReplica, horizontalScale, virtualMachine, smallCPULimit, replicasDiffer, shortRuns, renamed,
}

func situations(in *Input) []Situation {
	var out []Situation
	for _, recognize := range recognizers {
		if s, found := recognize(in); found {
			out = append(out, s)
		}
	}
	return out
}

// updaterPaused recognizes an updater that changes no pods at all.
func updaterPaused(in *Input) (Situation, bool) {
	return Situation{
		Code: UpdaterPaused, Title: "updater paused", Text: in.Paused,
		Advice: Advice{Text: "Look at the admission controller:", Command: "kubectl -n kube-system get lease,pods"},
	}, in.Paused != "" && in.Autoscaler != nil && in.Autoscaler.Mode.Updates()
}

// severalVPAs recognizes a workload that several VPAs target. One of them governs the pods.
func severalVPAs(in *Input) (Situation, bool) {
	if len(in.Others) == 0 || in.Autoscaler == nil || in.Subject.Kind == OfNode {
		return Situation{}, false
	}
	all := append([]*cluster.Autoscaler{in.Autoscaler}, in.Others...)
	idle := slices.DeleteFunc(all, func(a *cluster.Autoscaler) bool { return a == in.Governing })
	text := fmt.Sprintf("%d VPAs target the workload.", 1+len(in.Others))
	if g := in.Governing; g == nil {
		text += " None of them changes pods."
	} else {
		text += " VPA " + g.Name + " governs the pods."
		for _, a := range idle {
			why := "it is newer"
			if !a.ChangesPods(true) {
				why = "its update mode is " + a.Mode.String()
			}
			text += " VPA " + a.Name + " has no effect on them, because " + why + "."
		}
	}
	s := Situation{Code: SeveralVPAs, Title: fmt.Sprintf("%d VPAs for one workload", 1+len(in.Others)), Text: text}
	if in.Governing != nil {
		s.Advice.Text = "Keep one VPA for a workload. To delete the one without effect:"
		s.Advice.Command = kubectl(idle[0].Namespace, "delete", "vpa", idle[0].Name)
	}
	return s, true
}

// otherVendor recognizes a VPA whose recommendation is that of another program.
func otherVendor(in *Input) (Situation, bool) {
	if !in.Vendor || in.Subject.Kind == OfNode {
		return Situation{}, false
	}
	name := in.Autoscaler.Recommender
	return Situation{
		Code: OtherVendor, Title: "sized by recommender " + name,
		Text: "The VPA names the recommender " + name + ", which is neither a built-in profile of podfit nor a SizingProfile. That recommender writes the recommendation, and podfit only applies it: its log says why the numbers are as they are.",
	}, true
}

// deadlock recognizes OOM-killed pods that are not ready and that a PodDisruptionBudget does not allow to evict: they do not become ready
// without more memory, and are not evicted before they are ready. Without a VPA that applies its recommendation, new pods get no more memory.
func deadlock(in *Input) (Situation, bool) {
	if in.Subject.Kind == OfNode || in.Autoscaler == nil || !in.Autoscaler.Mode.Applies() {
		return Situation{}, false
	}
	var stuck []string
	for _, p := range in.Pods {
		if p.Crash != nil && !p.Ready {
			stuck = append(stuck, p.Name)
		}
	}
	if len(stuck) == 0 {
		return Situation{}, false
	}
	budget := in.blockingPDB(false)
	if budget == nil || !budget.Current { // the latter may allow it soon
		return Situation{}, false
	}
	which := "the OOM-killed pods"
	first := stuck[:min(len(stuck), 5)]
	if len(first) < len(stuck) {
		which += fmt.Sprintf(" (the first %d of %d)", len(first), len(stuck))
	}
	return Situation{
		Code: Deadlock, Title: "OOM and PDB deadlock",
		Text: fmt.Sprintf("%s %s OOM-killed and not ready. %s, so an eviction cannot replace %s.",
			wording.Count(len(stuck), "pod"), wording.Form(len(stuck), "is", "are"), in.pdbBlocks(false), wording.Form(len(stuck), "it", "them")),
		Advice: Advice{
			Text:    "Delete " + which + "; a deletion ignores PodDisruptionBudgets, and the new pods get the recommended memory:",
			Command: in.kubectl(append([]string{"delete", "pod"}, first...)...),
		},
	}, true
}

// pendingResize recognizes resizes that the kubelet has not done.
func pendingResize(in *Input) (Situation, bool) {
	resizing := in.resizingPods()
	if len(resizing) == 0 {
		return Situation{}, false
	}
	oldest := slices.MinFunc(resizing, bySince)
	state := resizeStates[oldest.Resize.State] + since(in.Now, " since ", oldest.Resize.Since)
	text := "The kubelet reports the resize of " + oldest.Name + " as " + state
	if ago := in.Now.Sub(oldest.Resize.Since); !oldest.Resize.Since.IsZero() && ago > 0 {
		text += " (" + wording.Span(ago) + " ago)"
	}
	return Situation{Code: ResizePending, Title: "resize " + state, Text: text + "."}, true
}

// fullNode recognizes pods whose resize waits for room on their node.
func fullNode(in *Input) (Situation, bool) {
	for _, d := range in.Decisions {
		waits := d.Reason.Code == decision.AwaitingRoom || d.Reason.Code == decision.ResizeWaiting || d.Pod.IsDeferred()
		if d.Do != decision.Leave || !waits || d.Pod.Node == "" {
			continue
		}
		text := "Node " + d.Pod.Node + " has no room for the new requests of " + d.Pod.Name + "."
		if n := in.nodeNamed(d.Pod.Node); n != nil && in.AllPods != nil {
			used := in.requested(n.Name)
			text = fmt.Sprintf("%s It has %s allocatable, and %s are requested.", text, short(n.Allocatable), short(used))
		}
		return Situation{Code: NodeFull, Title: "no room on node " + d.Pod.Node, Text: text, Advice: in.moveAdvice(d.Pod)}, true
	}
	return Situation{}, false
}

// moveAdvice returns how a pod is moved from its full node. A pod without a controller would not be replaced, and a node that is cordoned
// stays cordoned.
func (in *Input) moveAdvice(p *cluster.Pod) Advice {
	if p.Controller.IsZero() {
		return Advice{Text: "Nothing to do if the node gets room. The pod has no controller, so a deletion does not move it."}
	}
	command := kubectl(p.Namespace, "delete", "pod", p.Name)
	if n := in.nodeNamed(p.Node); n == nil || !n.Cordoned {
		command = "kubectl cordon " + wording.ShellWord(p.Node) + " && " + command + " && kubectl uncordon " + wording.ShellWord(p.Node)
	}
	return Advice{Text: "Nothing to do if the node gets room. To move the pod now:", Command: command}
}

// blockedAt returns the reason of the first decision that a gate blocks, and false if there is none.
func (in *Input) blockedAt(name gate.Name) (decision.Reason, bool) {
	for i := range in.Decisions {
		for _, g := range in.Gates[in.Decisions[i].Pod.UID] {
			if g.Blocked && g.Name == name {
				return g.Reason, true
			}
		}
	}
	return decision.Reason{}, false
}

// bounded returns why a bound of the cluster stops or lowers a size: the last decision with one of the codes, else the last of the gates
// that blocks, else that a size was lowered; "" if none of these is the case.
func (in *Input) bounded(codes []decision.ReasonCode, gates []gate.Name, held admissible.NoteKind, lowered string) string {
	text := ""
	if slices.ContainsFunc(in.Decisions, func(d decision.Decision) bool {
		return slices.ContainsFunc(d.With, func(f policy.Fitted) bool {
			return slices.ContainsFunc(f.Notes, func(n admissible.Note) bool { return n.Kind == held })
		})
	}) {
		text = lowered
	}
	for _, name := range gates {
		if r, blocked := in.blockedAt(name); blocked {
			text = r.String()
		}
	}
	for i := range in.Decisions {
		if r := &in.Decisions[i].Reason; slices.Contains(codes, r.Code) {
			text = r.String()
		}
	}
	return text
}

func aboveNode(in *Input) (Situation, bool) {
	text := in.bounded([]decision.ReasonCode{decision.NoNodeFits}, []gate.Name{gate.NodeSize}, admissible.HeldToNode,
		"The recommendation fits on no node that may take the pod, so the containers were scaled down in proportion.")
	return Situation{Code: AboveNode, Title: "larger than any node", Text: text, Advice: Advice{
		Text:    "Compare the largest nodes with the recommendation, or set maxAllowed in the VPA:",
		Command: "kubectl get nodes -o custom-columns=NAME:.metadata.name,CPU:.status.allocatable.cpu,MEMORY:.status.allocatable.memory",
	}}, text != ""
}

func aboveQuota(in *Input) (Situation, bool) {
	codes := []decision.ReasonCode{decision.OverQuota, decision.ResizeOverQuota}
	text := in.bounded(codes, []gate.Name{gate.SiblingQuota, gate.Quota}, admissible.HeldToQuota,
		"The recommendation exceeds a ResourceQuota even if no other pod uses it, so the containers were scaled down in proportion.")
	command := in.kubectl("describe", "resourcequota")
	if in.Subject.Kind == OfNode { // its pods are of several namespaces
		command = "kubectl describe resourcequota --all-namespaces"
	}
	advice := Advice{Text: "Compare the quotas with the recommendation:", Command: command}
	return Situation{Code: AboveQuota, Title: "above the quota", Text: text, Advice: advice}, text != ""
}

func singleReplica(in *Input) (Situation, bool) {
	r, blocked := in.blockedAt(gate.MinReplicas)
	if !blocked {
		return Situation{}, false
	}
	title := fmt.Sprintf("%s, minimum is %d", wording.Form(r.Have, "single replica", wording.Count(r.Have, "replica")), r.Want)
	s := Situation{Code: SingleReplica, Title: title, Text: r.String()}
	if a := in.Autoscaler; a != nil {
		least := max(1, r.Have)
		text := wording.Form(least, "To allow updates with one replica; an eviction then makes the workload unavailable until the new pod is ready:",
			fmt.Sprintf("To allow updates with %s:", wording.Count(least, "replica")))
		s.Advice = Advice{Text: text, Command: patchOf(a, fmt.Sprintf(`{"spec":{"updatePolicy":{"minReplicas":%d}}}`, least))}
	}
	return s, true
}

// horizontalScale recognizes a HorizontalPodAutoscaler that scales by a request that the VPA controls.
func horizontalScale(in *Input) (Situation, bool) {
	a := in.Autoscaler
	if a == nil {
		return Situation{}, false
	}
	for _, p := range in.Pods {
		for _, c := range p.Containers {
			for _, res := range cluster.All {
				scaled, n := a.ScaledBy(c.Name, res)
				if n == 0 || !c.IsSized() || !a.Policy(c.Name).Controls().Has(res) || !in.shows(c.Name) {
					continue
				}
				return horizontalText(in, a, &scaled, res), true
			}
		}
	}
	return Situation{}, false
}

func horizontalText(in *Input, a *cluster.Autoscaler, scaled *cluster.Horizontal, res cluster.Resource) Situation {
	name := wording.Name(res)
	s := Situation{Code: HorizontalScale, Title: "HPA scales by " + name}
	s.Text = fmt.Sprintf("HorizontalPodAutoscaler %s scales the workload at %d%% of the %s request. Another request would change the usage at which it adds pods.", scaled.HPA.Name, scaled.Metric.Percent, name)
	if a.PreserveScalePoint {
		s.Text += " The VPA has the annotation podfit.dev/hpa: podfit changes the target of the HPA together with the request."
		return s
	}
	s.Text += " So podfit does not change that request."
	s.Advice = Advice{
		Text:    "To change the request together with the target of the HPA:",
		Command: in.kubectl("annotate", "vpa", a.Name, "podfit.dev/hpa=preserve-scale-point", "--overwrite"),
	}
	return s
}

// virtualMachine recognizes containers that run a Java virtual machine.
func virtualMachine(in *Input) (Situation, bool) {
	for _, name := range in.JVMs() {
		if !in.shows(name) {
			continue
		}
		r := in.Pods[0].Runtime(in.Pods[0].Container(name))
		s := Situation{Code: JVM, Title: "JVM", Text: fmt.Sprintf("Container %s runs a Java virtual machine (detected by its %s). Its memory follows its heap settings and not its need, "+
			"and it reads limits only when it starts.", name, r.Evidence)}
		limited := slices.ContainsFunc(in.Pods, func(p *cluster.Pod) bool {
			c := p.Container(name)
			return c != nil && c.Limits.Has.Has(cluster.CPU)
		})
		if !limited && !r.CPUCountSet {
			s.Text += " Without a CPU limit it counts the CPUs of the node, or derives them from the CPU request, so that it may use many more threads than the request allows."
			s.Advice = in.processorAdvice(name, r)
		}
		return s, true
	}
	return Situation{}, false
}

// processorAdvice returns how the number of processors of a Java virtual machine is fixed. A command would replace options that the container
// has in the same variable, and is not shown with them, because values of variables may be secret.
func (in *Input) processorAdvice(container string, r *cluster.Runtime) Advice {
	const option = "-XX:ActiveProcessorCount=2"
	variable := runtimeguard.VariableOf(cluster.JVM)
	if !r.VariableOpen {
		return Advice{Text: "To fix the number of processors that it sees, add " + option + " to the variable " + variable + " in the pod template."}
	}
	if in.Subject.Command == "" {
		return Advice{}
	}
	return Advice{
		Text:    "To fix the number of processors that it sees; this restarts the pods:",
		Command: in.kubectl("set", "env", in.Command, "-c", container, variable+"="+option),
	}
}

// smallCPULimit recognizes a CPU limit that hides the need: usage never exceeds the limit, so neither does the recommendation. That is a very
// small limit, or one that the recommendation has reached.
func smallCPULimit(in *Input) (Situation, bool) {
	const smallLimit = 200 // the CPU limit from which on throttling does not hide the need of most programs, in millicores
	for _, p := range in.Pods {
		for _, c := range p.Containers {
			_, limits := c.Running()
			limit, limited := limits.Get(cluster.CPU)
			if !limited || limit == 0 || !c.IsSized() || !in.shows(c.Name) {
				continue
			}
			reached := in.target(c.Name, cluster.CPU)*10 >= limit*9
			if limit > smallLimit && !reached {
				continue
			}
			title := "small CPU limit " + wording.Amount(cluster.CPU, limit)
			if limit > smallLimit {
				title = "CPU limit " + wording.Amount(cluster.CPU, limit) + " reached"
			}
			s := Situation{Code: SmallCPULimit, Title: title, Text: fmt.Sprintf(
				"Container %s has a CPU limit of %s, above which it is throttled. Usage never exceeds a limit, so the recommendation cannot show what the container would need without it.",
				c.Name, wording.Amount(cluster.CPU, limit))}
			s.Advice = in.withoutLimit(c.Name)
			return s, true
		}
	}
	return Situation{}, false
}

// withoutLimit returns how the CPU limit of a container is removed. A limit of 0 would be below the request, which the API server refuses, so
// that "kubectl set resources" cannot do it.
func (in *Input) withoutLimit(container string) Advice {
	w := in.Subject.Workload
	patch := review.Patch{}
	patch.Add(container, false, map[string]any{"limits": map[string]any{"cpu": nil}})
	whole := patch.For(w)
	data, err := json.Marshal(whole)
	keepsPods := w.Kind == "ReplicaSet" || w.Kind == "ReplicationController" // they do not change with its template
	if in.Subject.Command == "" || whole == nil || keepsPods || err != nil {
		return Advice{Text: "Remove the CPU limit from the pod template, so that the need can be measured."}
	}
	return Advice{
		Text:    "To remove the limit, so that the need can be measured; this restarts the pods:",
		Command: in.kubectl("patch", in.Command, "--type", "strategic", "-p", string(data)),
	}
}

// target returns the target of a container for one resource, 0 if there is none.
func (in *Input) target(container string, res cluster.Resource) int64 {
	if in.Autoscaler == nil {
		return 0
	}
	if advice := in.Autoscaler.AdviceFor(container); advice != nil {
		return max(advice.Target.Amount(res), advice.Uncapped.Amount(res))
	}
	return 0
}

// replicasDiffer recognizes replicas of which one uses several times as much as another, for example a leader and its followers. All get the
// same recommendation.
func replicasDiffer(in *Input) (Situation, bool) {
	factor := map[cluster.Resource]float64{cluster.CPU: 3, cluster.Memory: 2}           // memory varies less from sample to sample
	least := map[cluster.Resource]float64{cluster.CPU: 0.05, cluster.Memory: 100 << 20} // differences below it do not matter
	for _, container := range in.measured() {
		for _, res := range cluster.All {
			low, high := in.extremes(container, res)
			if low.Pod == high.Pod || value(high, res) < least[res] || value(high, res) < factor[res]*value(low, res) {
				continue
			}
			unit := func(v float64) string {
				return wording.Amount(res, int64(v*cluster.Pick(res, 1000.0, 1))) + cluster.Pick(res, " CPU", " of memory")
			}
			s := Situation{
				Code: ReplicasDiffer, Title: "replicas differ",
				Text: fmt.Sprintf("Container %s uses %s in %s and %s in %s, as a leader and its followers may.",
					container, unit(value(high, res)), high.Pod.Name, unit(value(low, res)), low.Pod.Name),
			}
			a := in.Autoscaler
			switch {
			case a == nil || a.RoleLabel() == "":
				s.Text += " All replicas get the same recommendation, which follows the largest ones."
				if a != nil && a.Mode.Resizes() {
					s.Advice = sizeApart(a, in.Subject.Workload.Kind, res)
				}
			case slices.ContainsFunc(in.Pods, a.HasGroups):
				continue // they are sized apart
			case a.SizesByNode():
				s.Text += fmt.Sprintf(" All replicas get the same recommendation. Pods on nodes of another size are sized apart only if they need less, once they have been measured"+
					" for a day (--role-history), for three days if memory differs, and not beside canaries, HPAs, %s and %s.", rollout.AnnotationMaxStep, rollout.AnnotationPerCPU)
			case !a.SizesByRole():
				s.Text += fmt.Sprintf(" Annotation %s has no effect, because sizes by role require an update mode that resizes in place, and have none beside canaries, HPAs, %s and %s.",
					rollout.AnnotationRoleLabel, rollout.AnnotationMaxStep, rollout.AnnotationPerCPU)
			case a.SizesByUsage():
				s.Text += " They are sized apart once their use of CPU has differed by a factor of two for three days, and then for a day more (--role-history)."
			case !slices.ContainsFunc(in.Pods, func(p *cluster.Pod) bool { return a.RoleOf(p) != "" }):
				s.Text += fmt.Sprintf(" No pod has the label %s that annotation %s names, or podfit does not read the labels of pods of this kind.", a.Rules.RoleLabel, rollout.AnnotationRoleLabel)
			default:
				s.Text += fmt.Sprintf(" They are sized apart by their label %s, once pods with its values have been measured for a day (--role-history).", a.Rules.RoleLabel)
			}
			return s, true
		}
	}
	return Situation{}, false
}

// sizeApart says how pods that differ get sizes of their own.
func sizeApart(a *cluster.Autoscaler, kind string, differ cluster.Resource) Advice {
	text, label := "To size them apart by how much CPU they use, if that differs for days:", cluster.UsageLevel
	switch {
	case kind == "StatefulSet":
		text, label = "To size them apart by their ordinal, by another label if that has their role, or with "+cluster.UsageLevel+" by how much CPU they use:", cluster.PodIndex
	case differ != cluster.CPU || kind == "Job" || kind == "CronJob":
		return Advice{}
	}
	return Advice{Text: text, Command: kubectl(a.Namespace, "annotate", "vpa", a.Name, rollout.AnnotationRoleLabel+"="+label)}
}

// renamed recognizes a workload that has replaced one of another name, whose usage history it can continue.
func renamed(in *Input) (Situation, bool) {
	former := in.Former.Workload
	s := Situation{Code: Renamed, Title: "follows " + former.Kind + " " + former.Name}
	switch {
	case former.IsZero():
		return Situation{}, false
	case in.Former.Exists:
		s.Text = fmt.Sprintf("Annotation %s names %s %s, which still exists. Its usage history is added when it is deleted.", rollout.AnnotationContinues, former.Kind, former.Name)
	default:
		s.Text = fmt.Sprintf("%s %s no longer exists, and had the same containers. Its usage history of %s is stored. If it is the former name of this workload, its history can be continued.",
			former.Kind, former.Name, wording.Elapsed(in.Former.Age, "d"))
		s.Advice = Advice{
			Text:    "To continue the history of the former name:",
			Command: kubectl(in.Autoscaler.Namespace, "annotate", "vpa", in.Autoscaler.Name, rollout.AnnotationContinues+"="+former.Name, "--overwrite"),
		}
	}
	return s, true
}

// shortRuns recognizes containers that end within a minute. The Metrics API measures no or few of these runs. A container that runs again for
// longer than that does not count, and neither does a run whose times are not in order.
func shortRuns(in *Input) (Situation, bool) {
	const briefly = time.Minute // the length of runs that are too short for the Metrics API
	ended, brief := map[string]int{}, map[string]int{}
	for _, p := range in.Pods {
		lasts := p.Serves() && in.Now.Sub(p.ReadySince) >= briefly
		for _, c := range p.Containers {
			if !c.IsSized() || c.Exit == nil || c.Exit.Started.IsZero() || c.Exit.Finished.Before(c.Exit.Started) || !in.shows(c.Name) {
				continue
			}
			ended[c.Name]++
			if c.Exit.Finished.Sub(c.Exit.Started) < briefly && (c.Exit.Now || !lasts) {
				brief[c.Name]++
			}
		}
	}
	for _, name := range sortedKeys(brief) {
		if 2*brief[name] >= ended[name] {
			return Situation{
				Code: ShortRuns, Title: "runs under a minute",
				Text: fmt.Sprintf("The last runs of container %s ended within a minute. The Metrics API measures usage about once a minute, so it sees no or few of these runs, and the recommendation may be too low. With --kubelet-usage, the recommender measures more of them.", name),
			}, true
		}
	}
	return Situation{}, false
}
