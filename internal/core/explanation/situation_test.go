// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/gate"
	"podfit.dev/podfit/internal/core/runtimeguard"
	"podfit.dev/podfit/internal/core/usage"
)

// java gives the first container an image, a command and an environment, by which its runtime is detected.
func java(image string, command, environment []string) func(*Input) {
	return func(in *Input) {
		c := runtimeguard.Container{Image: image, Words: command}
		for _, text := range environment {
			name, value, _ := strings.Cut(text, "=")
			c.Variables = append(c.Variables, runtimeguard.Variable{Name: name, Value: value})
		}
		if r, known := runtimeguard.Detect(c); known {
			in.Pods[0].Runtimes = &cluster.Runtimes{List: []cluster.Runtime{r}}
		}
	}
}

// scaledBy adds an HPA that scales the workload by the utilization of a resource.
func scaledBy(res cluster.Resource, container string) func(*Input) {
	return func(in *Input) {
		in.Autoscaler.Horizontal = []*cluster.HorizontalAutoscaler{{
			Key: cluster.Key{Namespace: "shop", Name: "cart-hpa"}, Target: cart,
			Utilization: []cluster.UtilizationTarget{{Resource: res, Container: container, Percent: 70}},
		}}
	}
}

// uses sets the CPU usage of the pods, in cores.
func uses(cores ...float64) func(*Input) {
	return func(in *Input) {
		for i, c := range cores {
			in.Usage = append(in.Usage, usage.Sample{Pod: in.Pods[i].Key, Container: "app", CPU: c, Memory: 50 * mib, Has: cluster.Both})
		}
	}
}

// limitCPU sets the CPU limit of all containers, and the target of the VPA.
func limitCPU(limit, target int64) func(*Input) {
	return func(in *Input) {
		for _, p := range in.Pods {
			p.Containers[0].Limits = p.Containers[0].Limits.Set(cluster.CPU, limit)
		}
		in.Autoscaler.Advice = []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(target, gib)}}}
	}
}

// ran makes the last run of container app of each pod as long as given, and end at a time. The container has not restarted since.
func ran(ended time.Time, lengths ...time.Duration) func(*Input) {
	return func(in *Input) {
		for i, length := range lengths {
			in.Pods[i].Ready = false
			in.Pods[i].Containers[0].Exit = &cluster.Exit{Started: ended.Add(-length), Finished: ended, Now: true}
		}
	}
}

// runAgain makes all pods ready since a time, after their last run ended.
func runAgain(since time.Time) func(*Input) {
	return func(in *Input) {
		for _, p := range in.Pods {
			p.Ready, p.ReadySince, p.Containers[0].Exit.Now = true, since, false
		}
	}
}

// addBrief adds a container whose run was brief to the first pod.
func addBrief(in *Input) {
	p := in.Pods[0]
	p.Containers = append(p.Containers, cluster.Container{Name: "web", Exit: &cluster.Exit{Started: minutesAgo(1), Finished: minutesAgo(1).Add(time.Second), Now: true}})
}

// blocked makes a gate block the change of the first pod.
func blocked(name gate.Name, r decision.Reason) func(*Input) {
	return func(in *Input) { in.leave(0, r, name) }
}

// noted adds a note to the size of the first pod.
func noted(kind admissible.NoteKind) func(*Input) {
	return func(in *Input) {
		in.Decisions[0].With[0].Notes = []admissible.Note{{Kind: kind}}
	}
}

// edits returns the edits one after the other.
// ofRoles makes the workload a StatefulSet whose pods have a label with their role.
func ofRoles(label string, groups []cluster.GroupSize) func(*Input) {
	return func(in *Input) {
		in.Subject.Workload.Kind = "StatefulSet"
		in.Autoscaler.Mode, in.Autoscaler.Rules.RoleLabel = cluster.InPlaceOrRecreate, label
		in.Autoscaler.Advice = []cluster.Advice{{Container: in.Pods[0].Containers[0].Name, Groups: groups}}
		for _, p := range in.Pods {
			p.Marks = &cluster.Marks{Labels: "role=leader"}
		}
	}
}

func edits(all ...func(*Input)) func(*Input) {
	return func(in *Input) {
		for _, edit := range all {
			edit(in)
		}
	}
}

var (
	tooFew   = decision.Reason{Code: decision.TooFewReplicas, Have: 1, Want: 2}
	noRoom   = decision.Reason{Code: decision.ResizeWaiting, Text: "node n1 has 180Mi free"}
	tooLarge = decision.Reason{Code: decision.NoNodeFits, Text: "cpu"}
	quota    = decision.Reason{Code: decision.OverQuota, Text: "quota compute"}
)

// situationTests are scenes in which a known limit applies, each next to scenes close to it in which it does not. without is the code of
// the limit that must not be named.
var situationTests = map[string]struct {
	edit    func(*Input)
	applies string
	without string
}{
	"nothing":        {edit: func(*Input) {}},
	"JVM by command": {edit: java("shop/cart:1", []string{"/usr/bin/java", "-jar", "cart.jar"}, nil), applies: JVM},
	"JVM by label": {edit: func(in *Input) {
		in.Pods[0].Runtimes = &cluster.Runtimes{List: []cluster.Runtime{{Kind: cluster.JVM, Evidence: cluster.ByLabel}}}
	}, applies: JVM},
	"heap setting of an unknown program":       {edit: java("shop/cart:1", []string{"/start", "-Xmx512m"}, nil), without: JVM},
	"JVM by variable":                          {edit: java("shop/cart:1", nil, []string{"JAVA_OPTS=-Xmx512m"}), applies: JVM},
	"JVM by image with a digest":               {edit: java("registry/library/eclipse-temurin:21@sha256:aa", nil, nil), applies: JVM},
	"JVM with a processor count":               {edit: java("openjdk:21", nil, []string{"JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount=2"}), applies: JVM},
	"JVM with other options":                   {edit: java("openjdk:21", nil, []string{"JAVA_TOOL_OPTIONS=-Xmx1g -Xss1m"}), applies: JVM},
	"JVM with options of a ConfigMap":          {edit: java("openjdk:21", nil, []string{"JAVA_TOOL_OPTIONS="}), applies: JVM},
	"JVM with a CPU limit":                     {edit: edits(java("openjdk:21", nil, nil), limitCPU(4000, 100)), applies: JVM},
	"JVM without a controller":                 {edit: edits(java("openjdk:21", nil, nil), func(in *Input) { in.Subject.Command = "" }), applies: JVM},
	"program in JavaScript":                    {edit: java("shop/javascript-cart:1", []string{"node", "java.js"}, []string{"NODE_ENV=prod"}), without: JVM},
	"path that contains java":                  {edit: java("registry/java/cart:1", []string{"/java/cart"}, nil), without: JVM},
	"value of an option":                       {edit: java("shop/highlight:1", []string{"/serve", "--language", "java"}, nil), without: JVM},
	"JVM after an init program":                {edit: java("shop/cart:1", []string{"tini", "--", "java", "-jar", "cart.jar"}, nil), applies: JVM},
	"exporter of Kafka":                        {edit: java("danielqsj/kafka-exporter:v1", nil, nil), without: JVM},
	"JVM in another container":                 {edit: edits(java("openjdk:21", nil, nil), func(in *Input) { in.Container = "web" }), without: JVM},
	"HPA by CPU":                               {edit: scaledBy(cluster.CPU, ""), applies: HorizontalScale},
	"HPA by memory of the container":           {edit: scaledBy(cluster.Memory, "app"), applies: HorizontalScale},
	"HPA whose target follows":                 {edit: edits(scaledBy(cluster.CPU, ""), func(in *Input) { in.Autoscaler.PreserveScalePoint = true }), applies: HorizontalScale},
	"HPA of another container":                 {edit: scaledBy(cluster.CPU, "web"), without: HorizontalScale},
	"HPA by a resource that is not controlled": {edit: edits(scaledBy(cluster.CPU, ""), controlsMemory), without: HorizontalScale},
	"HPA without VPA":                          {edit: func(in *Input) { in.Autoscaler = nil }, without: HorizontalScale},
	"size above the largest node":              {edit: blocked(gate.NodeSize, tooLarge), applies: AboveNode},
	"size above the node by decision":          {edit: func(in *Input) { in.leave(0, tooLarge) }, applies: AboveNode},
	"size lowered to the node":                 {edit: noted(admissible.HeldToNode), applies: AboveNode},
	"size lowered to maxAllowed":               {edit: noted(admissible.LoweredToMaxAllowed), without: AboveNode},
	"size above the quota":                     {edit: blocked(gate.Quota, quota), applies: AboveQuota},
	"size above the quota of another pod":      {edit: blocked(gate.SiblingQuota, quota), applies: AboveQuota},
	"size above the quota by decision":         {edit: func(in *Input) { in.leave(0, quota) }, applies: AboveQuota},
	"size lowered to the quota":                {edit: noted(admissible.HeldToQuota), applies: AboveQuota},
	"size raised to minAllowed":                {edit: noted(admissible.RaisedToMinAllowed), without: AboveQuota},
	"one replica":                              {edit: blocked(gate.MinReplicas, tooFew), applies: SingleReplica},
	"two of three replicas":                    {edit: blocked(gate.MinReplicas, decision.Reason{Code: decision.TooFewReplicas, Have: 2, Want: 3}), applies: SingleReplica},
	"one replica and minReplicas 1":            {edit: blocked(gate.Budget, decision.Reason{Code: decision.BudgetSpent, Have: 1, Want: 1}), without: SingleReplica},
	"CPU limit of 200m":                        {edit: limitCPU(200, 20), applies: SmallCPULimit},
	"CPU limit of 201m":                        {edit: limitCPU(201, 20), without: SmallCPULimit},
	"CPU limit that the target reaches":        {edit: limitCPU(4000, 3600), applies: SmallCPULimit},
	"CPU limit above the target":               {edit: limitCPU(4000, 3599), without: SmallCPULimit},
	"CPU limit of a CronJob":                   {edit: edits(limitCPU(100, 20), func(in *Input) { in.Subject.Workload.Kind, in.Subject.Command = "CronJob", "cronjob/cart" }), applies: SmallCPULimit},
	"CPU limit 0":                              {edit: limitCPU(0, 100), without: SmallCPULimit},
	"CPU limit of an init container": {edit: edits(limitCPU(100, 20), func(in *Input) {
		in.Pods[0].Containers[0].Role, in.Pods[1].Containers[0].Role = cluster.Init, cluster.Init
	}), without: SmallCPULimit},
	"OOM kill and PDB without room": {edit: func(in *Input) { in.oomKilled(0, 3, minutesAgo(5)); in.protect(1, 2) }, applies: Deadlock},
	"two OOM kills and PDB without room": {edit: func(in *Input) {
		in.oomKilled(0, 3, minutesAgo(5))
		in.oomKilled(1, 1, minutesAgo(6))
		in.protect(0, 1)
	}, applies: Deadlock},
	"OOM kill and PDB with room":              {edit: func(in *Input) { in.oomKilled(0, 3, minutesAgo(5)); in.protect(2, 1) }, without: Deadlock},
	"OOM kill and PDB of other pods":          {edit: func(in *Input) { in.oomKilled(0, 3, minutesAgo(5)); in.protect(1, 2); in.Labels = []string{"app=web"} }, without: Deadlock},
	"OOM kill and labels that are not known":  {edit: func(in *Input) { in.oomKilled(0, 3, minutesAgo(5)); in.protect(1, 2); in.Labels = nil }, without: Deadlock},
	"OOM kill and PDB with all required pods": {edit: func(in *Input) { in.oomKilled(0, 3, minutesAgo(5)); in.protect(2, 2) }, without: Deadlock},
	"OOM kill and PDB that requires no pod":   {edit: func(in *Input) { in.oomKilled(0, 3, minutesAgo(5)); in.protect(0, 0) }, applies: Deadlock},
	"OOM kill and PDB that always allows": {edit: func(in *Input) {
		in.oomKilled(0, 3, minutesAgo(5))
		in.protect(1, 2)
		in.Disruption[0].AlwaysAllow = true
	}, without: Deadlock},
	"OOM kill and PDB whose status is older than its spec": {edit: func(in *Input) {
		in.oomKilled(0, 3, minutesAgo(5))
		in.protect(1, 2)
		in.Disruption[0].Current = false
	}, without: Deadlock},
	"OOM kill, PDB without room, mode Off":         {edit: func(in *Input) { in.oomKilled(0, 3, minutesAgo(5)); in.protect(1, 2); in.Autoscaler.Mode = cluster.Off }, without: Deadlock},
	"OOM kill, PDB without room, no VPA":           {edit: func(in *Input) { in.oomKilled(0, 3, minutesAgo(5)); in.protect(1, 2); in.Autoscaler = nil }, without: Deadlock},
	"pod that is ready after an OOM kill":          {edit: func(in *Input) { in.oomKilled(0, 3, minutesAgo(5)); in.Pods[0].Ready = true; in.protect(1, 2) }, without: Deadlock},
	"replicas that differ":                         {edit: uses(1.3, 0.4), applies: ReplicasDiffer},
	"replicas whose memory differs":                {edit: edits(uses(0.1, 0.1), func(in *Input) { in.Usage[1].Memory = 1.5 * gib }), applies: ReplicasDiffer},
	"replicas of a StatefulSet that differ":        {edit: edits(uses(1.3, 0.4), ofRoles("", nil)), applies: ReplicasDiffer},
	"replicas whose roles are learnt":              {edit: edits(uses(1.3, 0.4), ofRoles("role", nil)), applies: ReplicasDiffer},
	"replicas that are sized by their usage":       {edit: edits(uses(1.3, 0.4), ofRoles(cluster.UsageLevel, nil)), applies: ReplicasDiffer},
	"replicas of a DaemonSet on nodes of one size": {edit: edits(uses(1.3, 0.4), ofRoles("", nil), func(in *Input) { in.Autoscaler.Target.Kind = "DaemonSet" }), applies: ReplicasDiffer},
	"replicas with roles in mode Recreate":         {edit: edits(uses(1.3, 0.4), ofRoles("role", nil), func(in *Input) { in.Autoscaler.Mode = cluster.Recreate }), applies: ReplicasDiffer},
	"replicas with a size by role": {edit: edits(uses(1.3, 0.4), ofRoles("role", []cluster.GroupSize{{Role: "follower", Target: cluster.Resources{}.Set(cluster.CPU, 30)}})),
		without: ReplicasDiffer},
	"replicas that differ by less than 3": {edit: uses(1.1, 0.4), without: ReplicasDiffer},
	"small differences":                   {edit: uses(0.04, 0.01), without: ReplicasDiffer},
	"shape of etcd":                       {edit: uses(0.093, 0.03), applies: ReplicasDiffer},
	"memory that differs by less than 2":  {edit: edits(uses(0.1, 0.1), func(in *Input) { in.Usage[0].Memory, in.Usage[1].Memory = 320<<20, 620<<20 }), without: ReplicasDiffer},
	"former name of the workload": {edit: func(in *Input) {
		in.Former = Former{Workload: cluster.Workload{Kind: "Deployment", Name: "basket"}, Age: 30 * time.Hour}
	}, applies: Renamed},
	"named workload that still exists": {edit: func(in *Input) {
		in.Former = Former{Workload: cluster.Workload{Kind: "Deployment", Name: "basket"}, Exists: true}
	}, applies: Renamed},
	"no former workload":                  {edit: func(*Input) {}, without: Renamed},
	"usage of one replica":                {edit: uses(1.2), without: ReplicasDiffer},
	"runs of 59 seconds":                  {edit: ran(minutesAgo(1), 59*time.Second, 59*time.Second), applies: ShortRuns},
	"half of the runs brief":              {edit: ran(minutesAgo(1), time.Second, time.Hour), applies: ShortRuns},
	"runs of a minute":                    {edit: ran(minutesAgo(1), time.Minute, time.Minute), without: ShortRuns},
	"runs that end before they start":     {edit: ran(minutesAgo(1), -time.Second, -time.Hour), without: ShortRuns},
	"brief run, and a long one since":     {edit: edits(ran(minutesAgo(90), time.Second, time.Second), runAgain(minutesAgo(89))), without: ShortRuns},
	"brief run, and a new one":            {edit: edits(ran(minutesAgo(2), time.Second, time.Second), runAgain(noon)), applies: ShortRuns},
	"brief runs of one of two containers": {edit: edits(ran(minutesAgo(1), time.Hour, time.Hour), addBrief), applies: ShortRuns},
	"resize without a time":               {edit: func(in *Input) { in.resizing(0, cluster.ResizeInProgress, time.Time{}, "") }, applies: ResizePending},
	"resize in the future":                {edit: func(in *Input) { in.resizing(0, cluster.ResizeInProgress, minutesAgo(-3), "") }, applies: ResizePending},
	"run without a start":                 {edit: edits(ran(minutesAgo(1), time.Second), func(in *Input) { in.Pods[0].Containers[0].Exit.Started = time.Time{} }), without: ShortRuns},
	"resize Deferred":                     {edit: func(in *Input) { in.resizing(0, cluster.ResizeDeferred, minutesAgo(3), ""); in.leave(0, noRoom) }, applies: ResizePending},
	"resize Infeasible":                   {edit: func(in *Input) { in.resizing(0, cluster.ResizeInfeasible, minutesAgo(90), "") }, applies: ResizePending},
	"resize InProgress":                   {edit: func(in *Input) { in.resizing(1, cluster.ResizeInProgress, minutesAgo(0), "") }, applies: ResizePending},
	"resize that is done":                 {edit: func(in *Input) { in.resizing(0, cluster.NoResize, minutesAgo(3), "") }, without: ResizePending},
	"resize of a pod that ended": {edit: func(in *Input) {
		in.resizing(0, cluster.ResizeDeferred, minutesAgo(3), "")
		in.Pods[0].Deleting, in.Decisions = true, nil
	}, without: ResizePending},
	"updater is paused":               {edit: func(in *Input) { in.Paused = "The updater changes no pods." }, applies: UpdaterPaused},
	"updater is paused, and mode Off": {edit: func(in *Input) { in.Paused, in.Autoscaler.Mode = "The updater changes no pods.", cluster.Off }, without: UpdaterPaused},
	"older VPA governs":               {edit: secondVPA(cluster.InPlaceOrRecreate, minutesAgo(60), false), applies: SeveralVPAs},
	"the newer VPA is explained":      {edit: secondVPA(cluster.InPlaceOrRecreate, minutesAgo(60), true), applies: SeveralVPAs},
	"second VPA has mode Off":         {edit: secondVPA(cluster.Off, minutesAgo(600), false), applies: SeveralVPAs},
	"both VPAs have mode Off": {edit: func(in *Input) {
		secondVPA(cluster.Off, minutesAgo(60), false)(in)
		in.Autoscaler.Mode, in.Governing = cluster.Off, nil
	}, applies: SeveralVPAs},
	"one VPA":                                {edit: func(in *Input) { in.Governing = in.Autoscaler }, without: SeveralVPAs},
	"recommender of another vendor":          {edit: func(in *Input) { in.Autoscaler.Recommender, in.Vendor = "acme", true }, applies: OtherVendor},
	"profile of podfit":                      {edit: func(in *Input) { in.Autoscaler.Recommender = "cost" }, without: OtherVendor},
	"no room on the node":                    {edit: func(in *Input) { in.leave(0, noRoom) }, applies: NodeFull},
	"no room for the rest":                   {edit: func(in *Input) { in.leave(0, decision.Reason{Code: decision.AwaitingRoom}) }, applies: NodeFull},
	"no room on a node that is not known":    {edit: func(in *Input) { in.leave(0, noRoom); in.Nodes = nil }, applies: NodeFull},
	"no room and pods that are not known":    {edit: func(in *Input) { in.leave(0, noRoom); in.AllPods = nil }, applies: NodeFull},
	"no room on a cordoned node":             {edit: func(in *Input) { in.leave(0, noRoom); in.Nodes[0].Cordoned = true }, applies: NodeFull},
	"no room for a pod without a controller": {edit: func(in *Input) { in.leave(0, noRoom); in.Pods[0].Controller = cluster.Workload{} }, applies: NodeFull},
	"resize in progress on the node":         {edit: func(in *Input) { in.leave(0, decision.Reason{Code: decision.ResizeRunning}) }, without: NodeFull},
	"eviction from the full node":            {edit: func(in *Input) { in.leave(0, noRoom); in.Decisions[0].Do = decision.Evict }, without: NodeFull},
	"pod without a node":                     {edit: func(in *Input) { in.leave(0, noRoom); in.Pods[0].Node = "" }, without: NodeFull},
}

// secondVPA adds the VPA cart-2, which was created at a time. The explained VPA is ten hours old. If second is true, cart-2 is the explained one.
func secondVPA(mode cluster.Mode, created time.Time, second bool) func(*Input) {
	return func(in *Input) {
		in.Autoscaler.Created = minutesAgo(600)
		other := *in.Autoscaler
		other.Name, other.Mode, other.Created = "cart-2", mode, created
		in.Governing = cluster.Governing([]*cluster.Autoscaler{in.Autoscaler, &other}, true)
		in.Others = []*cluster.Autoscaler{&other}
		if second {
			in.Others[0], in.Autoscaler = in.Autoscaler, &other
		}
	}
}

func controlsMemory(in *Input) {
	in.Autoscaler.Policies = []cluster.ContainerPolicy{{Container: "*", ControlsSet: true, Controlled: cluster.Of(cluster.Memory)}}
}

func codesOf(all []Situation) []string {
	var out []string
	for i := range all {
		out = append(out, all[i].Code)
	}
	return out
}

func TestSituations_scene_namesTheLimitOnlyWhereItApplies(t *testing.T) {
	for name, c := range situationTests {
		t.Run(name, func(t *testing.T) {
			in := quietInput("cart-0", "cart-1")
			c.edit(in)
			got := codesOf(situations(in))
			if c.applies != "" && !slices.Contains(got, c.applies) {
				t.Errorf("limits %v, want %s", got, c.applies)
			}
			if c.applies == "" && len(got) > 0 {
				t.Errorf("limits %v, want none, in particular not %s", got, c.without)
			}
		})
	}
}

// The golden file contains the texts of all scenes in which a limit applies.
func TestSituations_scene_matchesGoldenFile(t *testing.T) {
	var out strings.Builder
	for _, name := range sortedKeys(situationTests) {
		c := situationTests[name]
		if c.applies == "" {
			continue
		}
		in := quietInput("cart-0", "cart-1")
		c.edit(in)
		fmt.Fprintf(&out, "# %s\n", name)
		for _, s := range situations(in) {
			fmt.Fprintf(&out, "%s: %s\n%s\n", s.Code, s.Title, in.named(t, s.Text))
			if s.Advice.Text != "" {
				fmt.Fprintf(&out, "> %s\n> %s\n", s.Advice.Text, s.Advice.Command)
			}
		}
		out.WriteString("\n")
	}
	golden(t, "situations.txt", out.String())
}

func TestSituations_JVM_showNoValuesOfVariables(t *testing.T) {
	in := quietInput("cart-0")
	java("openjdk:21", nil, []string{"JAVA_TOOL_OPTIONS=-Dsecret=1", "JAVA_OPTS=-Dsecret=2"})(in)
	found := situations(in)
	if got := fmt.Sprint(found); len(found) != 1 || strings.Contains(got, "secret") || !strings.Contains(got, "ActiveProcessorCount=2") {
		t.Errorf("limits %s", got)
	}
}

// A table without a scene for a limit does not test it.
func TestSituations_everyCode_hasSceneWithAndWithout(t *testing.T) {
	for _, code := range []string{JVM, HorizontalScale, AboveNode, AboveQuota, SingleReplica, SmallCPULimit, Deadlock, ReplicasDiffer, ShortRuns, ResizePending, NodeFull, SeveralVPAs, OtherVendor, UpdaterPaused, Renamed} {
		with, without := false, false
		for _, c := range situationTests {
			with = with || c.applies == code
			without = without || c.without == code
		}
		if !with || !without {
			t.Errorf("%s: scene in which it applies: %t, scene close to it: %t", code, with, without)
		}
	}
}

func TestSituations_noPods_areNone(t *testing.T) {
	in := quietInput()
	in.Autoscaler = nil
	if got := codesOf(situations(in)); len(got) > 0 {
		t.Errorf("limits %v, want none", got)
	}
}

func TestSituations_quotaOnNode_showsAllNamespaces(t *testing.T) {
	in := quietInput("cart-0", "cart-1")
	blocked(gate.Quota, quota)(in)
	in.Subject, in.Autoscaler = Subject{Kind: OfNode, Name: "n1"}, nil
	found := situations(in)
	if len(found) != 1 || found[0].Advice.Command != "kubectl describe resourcequota --all-namespaces" {
		t.Errorf("limits %v: the pods of a node are of several namespaces", found)
	}
}

func TestSituations_node_areNotThoseOfDisruptionBudgets(t *testing.T) {
	in := quietInput("cart-0", "cart-1")
	in.oomKilled(0, 3, minutesAgo(5))
	in.protect(1, 2)
	in.Subject = Subject{Kind: OfNode, Name: "n1", Pods: in.Pods, Autoscaler: in.Autoscaler}
	if got := codesOf(situations(in)); slices.Contains(got, Deadlock) {
		t.Errorf("limits %v: the labels of the pods of a node are not known", got)
	}
}

// The API server refuses a CPU limit of 0 if the container has a CPU request, so the limit must be removed.
func TestSmallCPULimit_command_removesTheLimit(t *testing.T) {
	for kind, want := range map[cluster.Workload]string{
		{Group: "apps", Kind: "StatefulSet"}: `kubectl -n shop patch sts/db --type strategic -p '{"spec":{"template":{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":null}}}]}}}}'`,
		{Group: "batch", Kind: "CronJob"}: `kubectl -n shop patch sts/db --type strategic -p ` +
			`'{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":null}}}]}}}}}}'`,
		{Group: "batch", Kind: "Job"}:           "", // its template is immutable
		{Group: "argoproj.io", Kind: "Rollout"}: "", // not a strategic merge
	} {
		w := kind
		w.Namespace, w.Name = "shop", "db"
		in := &Input{Subject: Subject{Workload: w, Command: "sts/db", Pods: []*cluster.Pod{{Containers: []cluster.Container{
			{Name: "app", Requests: cluster.Amounts(100, gib), Limits: cluster.Amounts(200, gib)},
		}}}}}
		s, found := smallCPULimit(in)
		if !found || s.Advice.Command != want || want == "" && s.Advice.Text != "Remove the CPU limit from the pod template, so that the need can be measured." {
			t.Errorf("%s: got %v and command %s", kind.Kind, found, s.Advice.Command)
		}
	}
}
