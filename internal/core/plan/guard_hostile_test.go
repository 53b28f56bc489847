// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/guard"
	"podfit.dev/podfit/internal/core/ledger"
)

const gib = int64(1) << 30

// A crowd is a cluster with the node guard and a pass every 15 seconds. Its scheduler prefers the node with the least requested memory, usage is measured
// 20 seconds before each pass, and evicted pods are replaced. No pod should change for another reason.
type crowd struct {
	World
	Budget
	autoscalers []*cluster.Autoscaler
	starts      map[string]time.Duration                                // how long pods take to be ready, by name of the workload; 10 seconds if absent
	healthy     map[string]int                                          // ready pods that a PodDisruptionBudget demands, by name of the workload
	uses        func(p *cluster.Pod, after time.Duration) (bytes int64) // of a running pod
	pressed     func(node string, after time.Duration) (share float64)  // the memory pressure of a node; nil: it is not known
	frozen      map[string]bool                                         // nodes that are not measured any more
	changed     func(after time.Duration)                               // what happens before a pass
	last        map[cluster.Key]guard.Sample
	moves       []crowdMove
	created     int
	rested      int // passes in which a node rested
}

type crowdMove struct {
	after       time.Duration
	of, node    string
	used        int64
	pod         *cluster.Pod
	replacement string
}

// newCrowd returns nodes of 100 GiB, n1, n2 and so on, without pods.
func newCrowd(nodes int) *crowd {
	c := &crowd{
		World: World{Scales: map[cluster.Workload]cluster.Scale{}, Ledger: ledger.New()}, Budget: DefaultBudget(),
		starts: map[string]time.Duration{}, healthy: map[string]int{}, frozen: map[string]bool{}, changed: func(time.Duration) {},
	}
	for i := range nodes {
		c.Nodes = append(c.Nodes, cluster.Node{Name: fmt.Sprint("n", i+1), Allocatable: cluster.Amounts(64000, 100*gib), Ready: true})
	}
	return c
}

// add adds a workload with its recommended size, and its pods on nodes.
func (c *crowd) add(name string, request int64, nodes ...string) {
	of := cluster.Workload{Group: "apps", Kind: "ReplicaSet", Namespace: name, Name: name}
	size := cluster.Amounts(100, request*gib)
	c.autoscalers = append(c.autoscalers, &cluster.Autoscaler{
		Key: cluster.Key{Namespace: name, Name: name}, Target: of, Mode: cluster.Recreate, MemoryLimits: cluster.LimitRule{Peaks: true},
		Advice: []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Lower: size, Target: size, Upper: size}}},
	})
	c.Scales[of] = cluster.Scale{Known: true, Replicas: int32(len(nodes))}
	for _, node := range nodes {
		p := c.pod(of, size, noon.Add(-time.Hour))
		p.Node, p.Phase, p.Ready, p.Started, p.ReadySince = node, cluster.Running, true, p.Created, p.Created.Add(c.start(p))
		c.Pods = append(c.Pods, p)
	}
}

func (c *crowd) pod(of cluster.Workload, size cluster.Resources, at time.Time) *cluster.Pod {
	c.created++
	name := fmt.Sprintf("%s-%d", of.Name, c.created)
	return &cluster.Pod{
		Key: cluster.Key{Namespace: of.Namespace, Name: name}, UID: name, Controller: of, Top: of, QoS: cluster.Burstable, Created: at,
		Containers: []cluster.Container{{Name: "app", Requests: size}},
	}
}

func (c *crowd) start(p *cluster.Pod) time.Duration {
	return cmp.Or(c.starts[p.Controller.Name], 10*time.Second)
}

func (c *crowd) on(node string) (pods []*cluster.Pod) {
	for _, p := range c.Pods {
		if p.Node == node {
			pods = append(pods, p)
		}
	}
	return pods
}

func (c *crowd) requested(node string) (bytes int64) {
	for _, p := range c.on(node) {
		bytes += p.Requested().Memory
	}
	return bytes
}

// share is an equal part of what all pods of a workload use on the node of a pod, so that the usage of the node is the given number of GiB.
func (c *crowd) share(p *cluster.Pod, total float64, others func(*cluster.Pod) int64) int64 {
	left, count := int64(total*float64(gib)), int64(0)
	for _, q := range c.on(p.Node) {
		if q.Controller == p.Controller {
			count++
		} else {
			left -= others(q)
		}
	}
	return max(left, 0) / count
}

// run runs passes for a time, and checks each move.
func (c *crowd) run(t *testing.T, d time.Duration) {
	t.Helper()
	for after := time.Duration(0); after < d; after += 15 * time.Second {
		c.step(after)
	}
	c.check(t)
}

func (c *crowd) step(after time.Duration) {
	now := noon.Add(after)
	c.changed(after)
	watched, samples := map[string]bool{}, map[cluster.Key]guard.Sample{}
	for i, p := range c.Pods {
		if !p.Ready && p.Node != "" && !now.Before(p.ReadySince) {
			q := *p
			q.Ready, q.Phase = true, cluster.Running
			c.Pods[i], p = &q, &q
		}
		watched[p.Node] = true
		if s, known := c.last[p.Key]; known && c.frozen[p.Node] {
			samples[p.Key] = s
		} else if p.Node != "" && now.Sub(p.Started) > 30*time.Second {
			samples[p.Key] = guard.Sample{At: now.Add(-20 * time.Second), Bytes: c.uses(p, after-20*time.Second)}
		}
	}
	c.last = samples
	c.Ledger.Guard.PressureLine = 0.1
	for node := range c.Ledger.Guard.Filling {
		if c.pressed != nil {
			cluster.Put(&c.Ledger.Guard.Pressure, node, guard.Pressure{At: now.Add(-20 * time.Second), Share: c.pressed(node, after)})
		}
	}
	c.Ledger.Guard.Observe(now, c.Nodes, watched, c.Pods, samples)
	if slices.ContainsFunc(c.Ledger.Guard.Alarms, func(a guard.Alarm) bool { return a.Rests }) {
		c.rested++
	}
	c.Governed = cluster.Gather(c.autoscalers, c.Pods, false)
	p := Begin(now, c.World, c.Budget)
	p.Learn()
	for _, d := range slices.Clone(p.Decisions()) {
		if d.Do != decision.Leave {
			c.carryOut(after, p, d)
		}
	}
	c.Ledger.PassEnded(p.Decisions())
	c.schedule(now)
}

func (c *crowd) carryOut(after time.Duration, pass *Pass, d decision.Decision) {
	ready := 0
	for _, p := range c.Pods {
		if p.Ready && p.Controller == d.Pod.Controller {
			ready++
		}
	}
	if ready <= c.healthy[d.Pod.Controller.Name] {
		pass.Refused(d, decision.Refusal{Kind: decision.DeniedByBudget})
		return
	}
	pass.Done(d)
	p := c.pod(d.Pod.Controller, d.Pod.Containers[0].Requests, noon.Add(after+time.Second))
	c.Pods[slices.Index(c.Pods, d.Pod)] = p
	c.moves = append(c.moves, crowdMove{after, d.Pod.Controller.Name, d.Pod.Node, c.last[d.Pod.Key].Bytes, d.Pod, p.Name})
}

// schedule gives pods without a node one, the oldest first.
func (c *crowd) schedule(now time.Time) {
	var waiting []int
	for i, p := range c.Pods {
		if p.Node == "" {
			waiting = append(waiting, i)
		}
	}
	slices.SortStableFunc(waiting, func(a, b int) int { return c.Pods[a].Created.Compare(c.Pods[b].Created) })
	for _, i := range waiting {
		p := *c.Pods[i]
		least := 100*gib - p.Requested().Memory + 1
		for _, n := range c.Nodes {
			if r := c.requested(n.Name); n.Ready && r < least {
				p.Node, least = n.Name, r
			}
		}
		if p.Node != "" {
			p.Phase, p.Started, p.ReadySince = cluster.Running, now, now.Add(c.start(&p))
			c.Pods[i] = &p
		}
	}
}

// check checks the promises of the guard that hold in every situation.
func (c *crowd) check(t *testing.T) {
	t.Helper()
	for i, m := range c.moves {
		if m.used <= m.pod.Requested().Memory {
			t.Errorf("after %v: pod %s moves from %s, but uses only %d GiB of %d", m.after, m.pod.Name, m.node, m.used/gib, m.pod.Requested().Memory/gib)
		}
		fromNode, ofWorkload := 1, 1
		for _, before := range c.moves[:i] {
			ago := m.after - before.after
			if before.node == m.node && ago < time.Minute {
				t.Errorf("after %v: two pods move from %s within %v", m.after, m.node, ago)
			}
			if before.node == m.node && ago < guard.Rest {
				fromNode++
			}
			if before.of == m.of && ago < guard.Rest {
				ofWorkload++
			}
		}
		if fromNode > guard.MostMoves || ofWorkload > guard.MostMoves {
			t.Errorf("after %v: pod %s is move %d from %s and %d of its workload within an hour", m.after, m.pod.Name, fromNode, m.node, ofWorkload)
		}
	}
}

func (c *crowd) count(of string) (n int) {
	for _, m := range c.moves {
		if m.of == of {
			n++
		}
	}
	return n
}

// Tenant mallory keeps each node on which it has pods 1 % above the line, and its pods start slowly, so that moving others seems cheaper. Those of modest
// use less than they request, and those of busy a bit more.
func TestGuard_tenantStaysJustAboveTheLine_movesBeforeItsVictims(t *testing.T) {
	c := newCrowd(4)
	c.starts["mallory"] = time.Minute
	c.add("busy", 5, "n1", "n1")
	c.add("mallory", 10, "n1", "n1")
	c.add("modest", 10, "n1", "n1", "n1", "n1")
	c.add("elsewhere", 20, "n2", "n3", "n4")
	others := func(p *cluster.Pod) int64 {
		return map[string]int64{"busy": 7, "modest": 6, "elsewhere": 15}[p.Controller.Name] * gib
	}
	c.uses = func(p *cluster.Pod, _ time.Duration) int64 {
		if p.Controller.Name == "mallory" {
			return c.share(p, 86, others)
		}
		return others(p)
	}
	c.run(t, 6*time.Hour)
	if len(c.moves) == 0 || c.moves[0].of != "mallory" || c.count("mallory") <= c.count("busy") {
		t.Errorf("%d pods of mallory move, and %d of busy; want that those of mallory move first", c.count("mallory"), c.count("busy"))
	}
}

// Usage passes the line every minute for six hours, on whatever pods the node has.
func TestGuard_usageOscillatesAcrossTheLine_movesAreFewAndTheNodeRests(t *testing.T) {
	c := newCrowd(3)
	for i := range 5 {
		c.add(fmt.Sprint("w", i), 6, "n1", "n1")
	}
	c.add("elsewhere", 30, "n2", "n3")
	c.uses = func(p *cluster.Pod, after time.Duration) int64 {
		if p.Node != "n1" {
			return 4 * gib
		}
		return (80 + 10*(int64(after.Minutes())%2)) * gib / int64(len(c.on("n1")))
	}
	c.run(t, 6*time.Hour)
	if n := len(c.moves); n < guard.MostMoves || n > 6*guard.MostMoves || c.rested == 0 {
		t.Errorf("%d moves in six hours, want from %d to %d; a node rested in %d passes", n, guard.MostMoves, 6*guard.MostMoves, c.rested)
	}
}

// A pod reclaims memory at its own limit for hours, and all tasks of its node wait for that. It is the only one that uses more than it requests, or one of many.
// Neither the pods of its node nor the pod itself move again and again.
func TestGuard_podReclaimsAtItsOwnLimit_movesAreFewAndTheNodeRests(t *testing.T) {
	for name, others := range map[string]int64{"it alone is above its request": 8, "all are above their requests": 2} {
		c := newCrowd(6)
		c.add("thrashing", 10, "n1", "n2")
		for i := range 18 {
			c.add(fmt.Sprint("w", i), others, fmt.Sprint("n", i%6+1), fmt.Sprint("n", (i+1)%6+1))
		}
		c.uses = func(p *cluster.Pod, _ time.Duration) int64 {
			if p.Controller.Name == "thrashing" {
				return 30 * gib
			}
			return 8 * gib
		}
		c.pressed = func(node string, _ time.Duration) float64 {
			if slices.ContainsFunc(c.on(node), func(p *cluster.Pod) bool { return p.Controller.Name == "thrashing" }) {
				return 0.6
			}
			return 0
		}
		c.run(t, 6*time.Hour)
		byNode, byWorkload := map[string]int{}, map[string]int{}
		for _, m := range c.moves {
			byNode[m.node]++
			byWorkload[m.of]++
		}
		if len(c.moves) == 0 || slices.Max(slices.Collect(maps.Values(byNode))) > guard.MostMoves || slices.Max(slices.Collect(maps.Values(byWorkload))) > guard.MostMoves {
			t.Errorf("%s: moves in six hours, by node: %v, by workload: %v; want some, and at most %d of each", name, byNode, byWorkload, guard.MostMoves)
		}
	}
}

// Half of the nodes go while others are nearly out of memory. At once, their pods need all the room that the other nodes have.
func TestGuard_halfOfTheNodesAreLost_noPodMovesWithoutRoomElsewhere(t *testing.T) {
	const full, loss = 54 * time.Minute, 55*time.Minute + 30*time.Second // the second move is due when the nodes go
	for name, deleted := range map[string]bool{"deleted": true, "not ready": false} {
		c := newCrowd(8)
		for i := range 24 { // 60 GiB on each node
			c.add(fmt.Sprint("w", i), 10, fmt.Sprint("n", i%8+1), fmt.Sprint("n", (i+1)%8+1))
		}
		c.add("large", 20, "n1", "n5") // so that replacements do not return
		lost := func(node string) bool { return node > "n4" }
		c.uses = func(p *cluster.Pod, after time.Duration) int64 {
			if after > full && (p.Node == "n1" || p.Node == "n5") {
				return 90 * gib / int64(len(c.on(p.Node)))
			}
			return 9 * gib
		}
		c.changed = func(after time.Duration) {
			if after != loss {
				return
			}
			for i := range c.Nodes {
				c.Nodes[i].Ready = !lost(c.Nodes[i].Name)
				c.frozen[c.Nodes[i].Name] = !c.Nodes[i].Ready
			}
			for i, p := range c.Pods {
				switch {
				case !lost(p.Node):
				case deleted:
					c.Pods[i] = c.pod(p.Controller, p.Containers[0].Requests, noon.Add(after))
				default: // as the node controller does
					q := *p
					q.Ready, q.ReadySince = false, noon.Add(24*time.Hour)
					c.Pods[i] = &q
				}
			}
			if deleted {
				c.Nodes = c.Nodes[:4]
			}
		}
		c.run(t, 3*time.Hour)
		for _, m := range c.moves {
			i := slices.IndexFunc(c.Pods, func(p *cluster.Pod) bool { return p.Name == m.replacement })
			if i >= 0 && c.Pods[i].Node == "" {
				t.Errorf("%s: pod %s moves from %s after %v, and its replacement has no node", name, m.pod.Name, m.node, m.after)
			}
			if m.after >= loss && lost(m.node) {
				t.Errorf("%s: pod %s moves from %s after %v, whose kubelet is away", name, m.pod.Name, m.node, m.after)
			}
		}
		if len(c.moves) == 0 {
			t.Errorf("%s: no pod moves before", name)
		}
	}
}

// All pods of a workload run on one node, and fill it. When one leaves, the others take over its usage.
func TestGuard_allReplicasAreOnOneNode_enoughStayInService(t *testing.T) {
	for name, c := range map[string]struct {
		healthy   int // of a PodDisruptionBudget
		tolerance float64
		least     int // ready pods
	}{
		"eviction tolerance of a half":         {0, 0.5, 3},
		"eviction tolerance of a third":        {0, 0.34, 4},
		"disruption budget of one":             {5, 0.5, 5},
		"disruption budget that permits none":  {6, 0.5, 6},
		"eviction tolerance that permits none": {0, 0, 5}, // as upstream, one pod may always go
	} {
		s := newCrowd(4)
		s.starts["web"] = 5 * time.Minute
		s.healthy["web"] = c.healthy
		s.Budget.Tolerance = c.tolerance
		s.add("web", 10, "n1", "n1", "n1", "n1", "n1", "n1")
		s.uses = func(p *cluster.Pod, _ time.Duration) int64 {
			if p.Node == "n1" {
				return 90 * gib / int64(len(s.on("n1")))
			}
			return 15 * gib
		}
		s.changed = func(after time.Duration) {
			ready := 0
			for _, p := range s.Pods {
				if p.Ready {
					ready++
				}
			}
			if ready < c.least {
				t.Fatalf("%s: after %v, %d pods are ready, want at least %d", name, after, ready, c.least)
			}
		}
		s.run(t, 3*time.Hour)
		if (len(s.moves) > 0) == (c.healthy == 6) {
			t.Errorf("%s: %d pods move", name, len(s.moves))
		}
	}
}

// Nodes whose pods may not move do not keep others from their turn, whatever their number and the interval of passes.
func TestPlan_manyNodesHaveNoPodToMove_othersGetTheirTurn(t *testing.T) {
	for _, interval := range []time.Duration{15 * time.Second, 20 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute} {
		for _, stuck := range []int{11, 14, 19, 29, 99} {
			w, b := guarded()
			own := w.Ledger.Guard.Alarms[0]
			own.Used-- // so it is the last
			w.Ledger.Guard.Alarms[0] = own
			for i := range stuck {
				p := *w.Pods[0]
				p.Name, p.UID, p.Node, p.LocalData = fmt.Sprint("stuck-", i), fmt.Sprint("stuck-", i), fmt.Sprint("full-", i), true
				w.Pods = append(w.Pods, &p)
				w.Nodes = append(w.Nodes, cluster.Node{Name: p.Node, Allocatable: cluster.Amounts(16000, 16*gib), Ready: true})
				w.Ledger.Guard.Alarms = append(w.Ledger.Guard.Alarms, guard.Alarm{Node: p.Node, Allocatable: own.Allocatable, Used: own.Allocatable, Excess: own.Excess})
			}
			w.Scales[w.Pods[0].Controller] = cluster.Scale{Known: true, Replicas: int32(stuck + 2)}
			w.Governed = cluster.Gather([]*cluster.Autoscaler{w.Governed[0].Autoscaler, w.Governed[1].Autoscaler, w.Governed[2].Autoscaler}, w.Pods, false)
			moved := false
			for pass := 0; pass < 10 && !moved; pass++ {
				w.Ledger.Guard.Turn = pass
				moved = decisionOf(Plan(noon.Add(time.Duration(pass)*interval), w, b), "a-0").Do == decision.Evict
			}
			if !moved {
				t.Errorf("%d nodes without a pod that may move, a pass every %v: no pod of the other node moves in 10 passes", stuck, interval)
			}
		}
	}
}
