// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	vpautil "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// A simulation runs a world: pods, controllers, the scheduler and kubelets. It uses the clock of the synctest bubble. Objects are
// replaced and never modified, so that callers may keep them.
type simulation struct {
	world   *world
	started time.Time

	mu        sync.Mutex
	workloads []*simulated
	serial    int
	stepped   int             // the last minute whose step has run
	revision  int             // counts changes of the state
	shown     [][]*corev1.Pod // all pods in each of the last minutes, as a stale watch shows them
	journal   []string        // requests, replies and events, oldest first

	// keepsSizeOverQuota is whether the admission webhook does not size a new pod whose recommended size a quota would reject. It is
	// podfit's webhook with the permission to read ResourceQuotas.
	keepsSizeOverQuota bool

	onTick   func()                                        // called after a change between two minutes, see ticks
	onScale  func(w *simulated)                            // called when the number of replicas has changed
	onDelete func(w *simulated, p *replica)                // called for every deletion by an updater before it is carried out
	onEvict  func(w *simulated, p *replica, reply string)  // called for every eviction before it is carried out; reply is the refusal, or ""
	onResize func(w *simulated, p *replica, restarts bool) // called for every resize before it is carried out
}

// simulated is a workload of a simulation.
type simulated struct {
	workload
	index     int
	namespace string
	vpa       *vpav1.VerticalPodAutoscaler
	provider  recommendation.Provider
	processor vpautil.RecommendationProcessor
	pods      []*replica // by replica; includes pods that are being deleted
	hard      int64      // millicores that the namespace may request; 0 means no limit
	vacant    []int      // minute since which a replica is missing; -1 if it exists
	refused   int        // consecutive rejections of new pods by the quota
	unsized   bool       // a new pod was created without the recommended size, because of the quota or because no webhook sized it
	undone    int        // number of resizes that were undone
	mayFail   []int      // number of requests that each fault may have affected
	// evictedLeaving is whether an eviction was accepted of a pod that a scale-down had deleted before. The updater cannot know that.
	evictedLeaving bool
	effects        effects
	everywhere     *window // world.Unsized
	bounds         map[*corev1.Pod]*vpav1.RecommendedPodResources
}

// A replica is a pod with the state that only the simulation has.
type replica struct {
	pod       *corev1.Pod
	number    int // index among the replicas
	leaves    int // minute in which a deleted pod is removed
	startsAt  int // minute; -1 without a node
	readyAt   int
	resized   int                    // minute of the last accepted resize
	applied   int                    // minute in which the kubelet completed the last resize
	diesAt    int                    // minute of the next OOM kill, if memory is too small
	wakesAt   int                    // minute of the restart after it
	answered  *corev1.Pod            // the pod that the cached answers belong to
	answers   map[string]*corev1.Pod // results of patches, by patch
	restarted time.Time              // when a resize last restarted the pod, which was ready
	resizes   int                    // number of accepted resizes
	tried     map[string]int         // requests since the pod or its recommendation changed, by verb; for evictions also since another pod was deleted
	replies   map[string]string      // the last replies, by verb
	over      bool                   // the last definite reply to a resize was a quota refusal
	overTotal size                   // what the pods of the workload requested when a quota last refused a resize; zero after a resize
	overSince time.Time              // when that reply was sent, since the last other reply
	sent      time.Time              // when the request in progress was sent
	done      bool                   // the last request was carried out
	since     map[string]int         // minute since which requests have been carried out, or refused, by verb
	triedFrom map[string]int         // minute of the first request for the present recommendation, by verb
	lastAt    int                    // minute of the last request
	last      map[string]int         // the same, by verb
	fine      int                    // last minute in which the pod was satisfied
	late      bool                   // a resize was carried out after others were refused
	readyFrom time.Time              // when the pod became ready; zero if it has been since before the simulation
	served    int                    // last minute in which the pod was ready
	unserved  int                    // last minute in which the pod was not ready
	killed    int                    // minute of the last OOM kill
}

func newSimulation(w *world) *simulation {
	s := &simulation{world: w, started: time.Now()}
	for i := range w.Workloads {
		sw := &simulated{workload: w.Workloads[i], index: i, namespace: fmt.Sprintf("ns-%d", i), everywhere: w.Unsized, effects: effects{evicted: map[int]time.Time{}}}
		calculator := limits{sw.MostMB}
		sw.processor = vpautil.NewCappingRecommendationProcessor(calculator)
		sw.provider = recommendation.NewProvider(calculator, sw.processor)
		sw.mayFail = make([]int, len(sw.Faults))
		sw.vacant = slices.Repeat([]int{-1}, sw.most())
		sw.bounds = map[*corev1.Pod]*vpav1.RecommendedPodResources{}
		sw.advise(s.at(-24*60), 0)
		for n := range sw.Replicas {
			p := s.make(sw, n)
			if slices.Contains(sw.Fine, n) {
				sw.size(p)
			}
			s.add(sw, p, n, -24*60)
		}
		if sw.Quota != nil {
			sw.hard = max(sw.requested()+*sw.Quota, 1)
		}
		s.workloads = append(s.workloads, sw)
	}
	s.step(0)
	return s
}

// at returns the time of a minute of the simulation, or the present time if the minute is not over and the cluster changes every few seconds.
// Times in objects are whole seconds.
func (s *simulation) at(minute int) metav1.Time {
	if s.world.Defaults && minute == s.minute() {
		return metav1.NewTime(time.Now().Truncate(time.Second))
	}
	return metav1.NewTime(s.started.Add(time.Duration(minute) * time.Minute).Truncate(time.Second))
}

// createdAt returns the minute in which a pod was created.
func (s *simulation) createdAt(p *replica) int {
	return int(p.pod.CreationTimestamp.Sub(s.started) / time.Minute)
}

func (s *simulation) minute() int { return int(time.Since(s.started) / time.Minute) }

func (s *simulation) note(format string, args ...any) {
	s.journal = append(s.journal, fmt.Sprintf("%5d ", s.minute())+fmt.Sprintf(format, args...))
}

func (w *simulated) name() string { return fmt.Sprintf("w%d", w.index) }

func (w *simulated) controller() (kind, name string) {
	if w.StatefulSet {
		return "StatefulSet", w.name()
	}
	return "ReplicaSet", w.name() + "-rs"
}

func (w *simulated) target() (kind, name string) {
	if w.StatefulSet {
		return "StatefulSet", w.name()
	}
	return "Deployment", w.name()
}

// advise sets the recommendation of a minute in the status of the autoscaler.
func (w *simulated) advise(created metav1.Time, minute int) {
	at := 0
	for i, a := range w.Advice {
		if a.At <= minute {
			at = i
		}
	}
	kind, name := w.target()
	mode := vpav1.UpdateMode(w.Mode)
	v := &vpav1.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name(), UID: types.UID(w.name()), CreationTimestamp: created},
		Spec: vpav1.VerticalPodAutoscalerSpec{
			TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: kind, Name: name},
			UpdatePolicy: &vpav1.PodUpdatePolicy{UpdateMode: &mode},
		},
	}
	if w.AfterOOM > 0 {
		v.Spec.UpdatePolicy.EvictAfterOOMSeconds = &w.AfterOOM
	}
	if w.MinReplicas > 0 {
		v.Spec.UpdatePolicy.MinReplicas = &w.MinReplicas
	}
	t := w.Advice[at].Target
	v.Status.Recommendation = &vpav1.RecommendedPodResources{}
	for _, name := range w.names() {
		v.Status.Recommendation.ContainerRecommendations = append(v.Status.Recommendation.ContainerRecommendations, vpav1.RecommendedContainerResources{
			ContainerName: name, LowerBound: list(size{t.CPU / 2, t.Memory / 2}), Target: list(t), UpperBound: list(size{t.CPU * 2, t.Memory * 2}),
		})
	}
	if f := w.follower(minute); f != nil {
		v.Annotations = map[string]string{rollout.AnnotationRoleLabel: "role"}
		if f.Has.Has(cluster.Memory) {
			v.Annotations[rollout.AnnotationFollowers] = "own"
		}
		for i := range v.Status.Recommendation.ContainerRecommendations {
			r := &v.Status.Recommendation.ContainerRecommendations[i]
			r.UncappedTarget = projection.WithGroups(r.Target.DeepCopy(), []cluster.GroupSize{{Role: "follower", Target: *f}})
		}
	}
	w.vpa = v
	w.bounds = map[*corev1.Pod]*vpav1.RecommendedPodResources{}
}

func list(s size) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(s.CPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(s.Memory<<20, resource.BinarySI),
	}
}

// limits is the LimitRange of a namespace for upstream's code: the maximum memory of a container in MiB, 0 for none.
type limits struct{ most int64 }

func (l limits) GetContainerLimitRangeItem(string) (*corev1.LimitRangeItem, error) {
	if l.most == 0 {
		return nil, nil
	}
	return &corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{
		corev1.ResourceMemory: *resource.NewQuantity(l.most<<20, resource.BinarySI),
	}}, nil
}

func (l limits) GetPodLimitRangeItem(string) (*corev1.LimitRangeItem, error) { return nil, nil }

// make returns a new pod of a workload, with the resources of the template.
func (s *simulation) make(w *simulated, number int) *corev1.Pod {
	s.serial++
	kind, owner := w.controller()
	name := fmt.Sprintf("%s-rs-%d", w.name(), s.serial)
	if w.StatefulSet {
		name = fmt.Sprintf("%s-%d", w.name(), number)
	}
	yes := true
	var c corev1.Container
	c.Resources.Requests = list(w.Template)
	switch w.Limits {
	case "same":
		c.Resources.Limits = list(w.Template)
	case "twice":
		c.Resources.Limits = list(size{2 * w.Template.CPU, 2 * w.Template.Memory})
	}
	if w.Restart {
		c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	}
	var containers []corev1.Container
	for _, name := range w.names() {
		one := *c.DeepCopy()
		one.Name = name
		containers = append(containers, one)
	}
	qos := corev1.PodQOSBurstable
	if w.Limits == "same" {
		qos = corev1.PodQOSGuaranteed
	}
	labels := map[string]string{"app": w.name(), "replica": strconv.Itoa(number)}
	if w.Followers != nil {
		labels["role"] = w.role(number, s.minute())
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: name, UID: types.UID(fmt.Sprintf("%s-%d", w.name(), s.serial)),
			Labels:          labels,
			Annotations:     map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner, Controller: &yes}},
		},
		Spec:   corev1.PodSpec{Containers: containers},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qos},
	}
}

// size sets the requests and limits of a new pod, as the admission webhook does.
func (w *simulated) size(p *corev1.Pod) {
	got, _, err := w.provider.GetContainersResourcesForPod(p, w.vpa)
	if err != nil {
		panic(err)
	}
	for i := range got { // in the order of the pod's containers
		r := &p.Spec.Containers[i].Resources
		for name, q := range got[i].Requests {
			r.Requests[name] = q
		}
		for name, q := range got[i].Limits {
			if r.Limits == nil {
				r.Limits = corev1.ResourceList{}
			}
			r.Limits[name] = q
		}
	}
	p.Annotations["vpaObservedContainers"] = strings.Join(w.names(), ", ")
}

func (s *simulation) add(w *simulated, p *corev1.Pod, number, minute int) {
	p.CreationTimestamp = s.at(minute)
	p.ResourceVersion = "0"
	w.pods = append(w.pods, &replica{
		pod: p, number: number, startsAt: -1, lastAt: -1, replies: map[string]string{}, since: map[string]int{}, triedFrom: map[string]int{}, last: map[string]int{},
		served: never, unserved: never, killed: never,
	})
	slices.SortStableFunc(w.pods, func(a, b *replica) int { return a.number - b.number })
	w.vacant[number] = -1
	s.revision++
}

// change replaces a pod by a modified copy.
func (s *simulation) change(p *replica, how func(*corev1.Pod)) {
	q := p.pod.DeepCopy()
	how(q)
	s.revision++
	q.ResourceVersion = strconv.Itoa(s.revision)
	p.pod = q
	p.tried = nil
}

// step runs the controllers, the scheduler and the kubelets for one minute.
func (s *simulation) step(minute int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workloads {
		for _, a := range w.Advice {
			if a.At == minute && minute > 0 {
				w.advise(w.vpa.CreationTimestamp, minute)
				s.revision++
				for _, p := range w.pods {
					p.tried = nil
				}
			}
		}
		for _, to := range w.Scales {
			if to.At == minute {
				s.scale(w, to.Replicas)
			}
		}
		s.progressOf(w, minute)
	}
	if s.world.Lag > 0 {
		s.shown = append(s.shown, s.all())
		s.shown = s.shown[max(0, len(s.shown)-1-s.world.Lag):]
	}
}

// scale sets the number of replicas. The controller deletes surplus pods immediately. A StatefulSet deletes those with the highest
// numbers. A Deployment that lacks pods deletes only as many as there are too many: the others take the numbers of the missing ones.
func (s *simulation) scale(w *simulated, replicas int) {
	s.note("scaled %s from %d to %d", w.name(), w.Replicas, replicas)
	w.Replicas = replicas
	s.revision++
	if !w.StatefulSet {
		s.renumber(w)
	}
	for i := range w.vacant {
		if i >= replicas {
			w.vacant[i] = -1
			delete(w.effects.evicted, i)
		}
	}
	for _, p := range w.pods {
		p.tried = nil
		if p.number >= replicas && p.pod.DeletionTimestamp == nil {
			s.remove(w, p)
		}
	}
	if s.onScale != nil {
		s.onScale(w)
	}
}

// renumber gives the numbers of missing pods to pods whose numbers are too high.
func (s *simulation) renumber(w *simulated) {
	taken := make([]bool, len(w.vacant))
	for _, p := range w.pods {
		taken[p.number] = taken[p.number] || p.pod.DeletionTimestamp == nil
	}
	for _, p := range w.pods {
		free := slices.Index(taken, false)
		if p.number < w.Replicas || p.pod.DeletionTimestamp != nil || free < 0 || free >= w.Replicas {
			continue
		}
		taken[free], p.number, w.vacant[free] = true, free, -1
		s.change(p, func(q *corev1.Pod) { q.Labels["replica"] = strconv.Itoa(free) })
	}
	slices.SortStableFunc(w.pods, func(a, b *replica) int { return a.number - b.number })
}

// remove starts the deletion of a pod.
func (s *simulation) remove(w *simulated, p *replica) {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	s.change(p, func(q *corev1.Pod) { q.DeletionTimestamp = &now })
	p.leaves = s.minute() + 1 + w.Grace
	if s.world.Defaults {
		p.leaves--
	}
	for _, o := range w.pods {
		delete(o.tried, "evict") // a disruption budget may allow another eviction when the pod is replaced
	}
}

// most returns the largest number of replicas of a workload over all minutes.
func (w *workload) most() int {
	n := w.Replicas
	for _, to := range w.Scales {
		n = max(n, to.Replicas)
	}
	return n
}

// ends returns the number of replicas after a number of minutes.
func (w *workload) ends(minutes int) int {
	n := w.Replicas
	for _, to := range w.Scales {
		if to.At < minutes {
			n = to.Replicas
		}
	}
	return n
}

// fewest returns the smallest number of replicas of a workload up to a minute.
func (w *workload) fewest(minute int) int {
	n := w.Replicas
	for _, s := range w.Scales {
		if s.At <= minute {
			n = min(n, s.Replicas)
		}
	}
	return n
}

// scaledDown reports whether the number of replicas decreased in a range of minutes.
func (w *workload) scaledDown(from, to int) bool {
	n := w.Replicas
	for _, s := range w.Scales {
		if s.Replicas < n && s.At >= from && s.At <= to {
			return true
		}
		n = s.Replicas
	}
	return false
}

// all returns all pods.
func (s *simulation) all() []*corev1.Pod {
	var out []*corev1.Pod
	for _, w := range s.workloads {
		for _, p := range w.pods {
			out = append(out, p.pod)
		}
	}
	return out
}

// watched returns all pods as the watches of updaters show them.
func (s *simulation) watched() []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.world.Lag > 0 {
		return s.shown[0]
	}
	return s.all()
}

// replace removes pods whose deletion has ended, and creates missing pods.
func (s *simulation) replace(w *simulated, minute int) {
	w.pods = slices.DeleteFunc(w.pods, func(p *replica) bool {
		gone := p.pod.DeletionTimestamp != nil && minute >= p.leaves
		if gone {
			s.revision++
		}
		return gone
	})
	for number := range w.Replicas {
		taken := slices.ContainsFunc(w.pods, func(p *replica) bool {
			return p.number == number && (p.pod.DeletionTimestamp == nil || w.StatefulSet)
		})
		if taken {
			continue
		}
		if w.vacant[number] < 0 {
			w.vacant[number] = minute
		}
		if minute < w.vacant[number]+w.Delay {
			continue
		}
		p := s.make(w, number)
		own := p.DeepCopy()
		w.size(p)
		sized := p
		if w.leavesUnsized(minute) {
			p, w.unsized = own, true
		}
		if w.Reset.open(minute) {
			p.Annotations = sized.Annotations
		}
		if s.keepsSizeOverQuota && w.rejects(p) && !w.rejects(own) {
			p, w.unsized = own, true
		}
		if w.rejects(p) {
			if w.refused == 0 {
				s.note("create %s: exceeded quota", p.Name)
			}
			w.refused++
			continue
		}
		w.refused = 0
		s.note("created %s with %s", p.Name, show(p))
		w.effects.replaced(number, sameResources(p, sized))
		s.add(w, p, number, minute)
	}
}

// rejects reports whether the quota of the namespace rejects a new pod.
func (w *simulated) rejects(p *corev1.Pod) bool {
	return w.hard > 0 && w.requested()+cpu(p) > w.hard
}

// requested returns the sum of the CPU requests of the namespace in millicores.
func (w *simulated) requested() (sum int64) {
	for _, p := range w.pods {
		sum += cpu(p.pod)
	}
	return sum
}

// schedule binds a pod to the first node with enough free capacity.
func (s *simulation) schedule(p *replica) {
	if p.pod.Spec.NodeName != "" || p.pod.DeletionTimestamp != nil {
		return
	}
	node := nodeName(0)
	if s.world.Nodes > 0 {
		node = ""
		for n := range s.world.Nodes {
			name := nodeName(n)
			if s.fits(name, nil, cpu(p.pod), memory(p.pod)) {
				node = name
				break
			}
		}
	}
	status := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
	if node == "" {
		status = corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}
		if condition(p.pod, corev1.PodScheduled) != nil {
			return
		}
	}
	s.change(p, func(q *corev1.Pod) {
		q.Spec.NodeName = node
		set(q, status)
	})
}

// fits reports whether a node has enough capacity for a pod in addition to all its pods except one. The requests of the pod are in
// millicores and bytes.
func (s *simulation) fits(node string, except *replica, millicores, bytes int64) bool {
	if s.world.Nodes == 0 {
		return true
	}
	used := size{millicores, bytes}
	for _, w := range s.workloads {
		for _, p := range w.pods {
			if p != except && p.pod.Spec.NodeName == node {
				used.CPU += cpu(p.pod)
				used.Memory += memory(p.pod)
			}
		}
	}
	return used.CPU <= s.world.Node.CPU && used.Memory <= s.world.Node.Memory<<20
}

// run is the work of the kubelet for a pod in one minute.
func (s *simulation) run(w *simulated, p *replica, minute int) {
	if p.pod.Spec.NodeName == "" || p.pod.DeletionTimestamp != nil {
		p.unserved = minute
		return
	}
	if p.pod.Status.Phase == corev1.PodPending {
		if p.startsAt < 0 {
			p.startsAt, p.readyAt = minute, minute+w.Start
			if minute == 0 { // it was started before the simulation
				p.readyAt = 0
			}
			p.diesAt = s.clock(w, minute) + w.OOM.after(0)
		}
		s.change(p, func(q *corev1.Pod) {
			q.Status.Phase = corev1.PodRunning
			began := s.at(minute)
			if minute == 0 {
				began = q.CreationTimestamp
			}
			q.Status.StartTime = &began
			q.Status.ContainerStatuses = nil
			for i := range q.Spec.Containers {
				c := &q.Spec.Containers[i]
				q.Status.ContainerStatuses = append(q.Status.ContainerStatuses, corev1.ContainerStatus{
					Name: c.Name, Resources: c.Resources.DeepCopy(),
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
				})
			}
			set(q, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: began})
		})
	}
	if w.Undo > 0 && p.resized > 0 && minute >= p.resized+w.Undo && p.pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() != w.Template.CPU {
		s.note("undid the resize of %s", p.pod.Name)
		w.undone++
		p.resized = 0
		s.change(p, func(q *corev1.Pod) { setResources(q, s.make(w, p.number)) })
	}
	s.resize(w, p, minute)
	s.kill(w, p, minute)
	ready := minute >= p.readyAt && p.wakesAt == 0 && !slices.Contains(w.NeverReady, p.number)
	if ready {
		p.served = minute
	} else {
		p.unserved = minute
	}
	if ready != isReady(p.pod) {
		if s.createdAt(p) >= 0 {
			p.readyFrom = time.Now()
		}
		s.change(p, func(q *corev1.Pod) {
			status := corev1.ConditionFalse
			if ready {
				status = corev1.ConditionTrue
			}
			set(q, corev1.PodCondition{Type: corev1.PodReady, Status: status, LastTransitionTime: s.at(minute)})
		})
	}
}

// kill OOM-kills a container that has less memory than it needs, and restarts it later.
func (s *simulation) kill(w *simulated, p *replica, minute int) {
	if w.OOM.NeedMB == 0 {
		return
	}
	has := running(p.pod, 0)
	enough := has.Requests.Memory().Value() >= w.OOM.NeedMB<<20
	now := s.clock(w, minute)
	switch {
	case p.wakesAt > 0 && now >= p.wakesAt:
		p.wakesAt, p.diesAt = 0, now+w.OOM.after(0)
		s.change(p, func(q *corev1.Pod) {
			began := s.at(minute)
			q.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}
		})
	case p.wakesAt == 0 && !enough && now >= p.diesAt:
		p.killed = minute
		s.change(p, func(q *corev1.Pod) {
			c := &q.Status.ContainerStatuses[0]
			c.RestartCount++
			p.wakesAt = now + w.OOM.after(c.RestartCount)
			c.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "OOMKilled", ExitCode: 137, StartedAt: metav1.NewTime(s.at(minute).Add(-w.OOM.lives())), FinishedAt: s.at(minute),
			}}
			c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		})
	}
}

// resize continues a resize that the API server has accepted.
func (s *simulation) resize(w *simulated, p *replica, minute int) {
	if isResized(p.pod) {
		if condition(p.pod, corev1.PodResizePending) != nil || condition(p.pod, corev1.PodResizeInProgress) != nil {
			s.change(p, func(q *corev1.Pod) { drop(q, corev1.PodResizePending, corev1.PodResizeInProgress) })
		}
		return
	}
	how := w.Resizing
	over := how.For > 0 && minute >= p.resized+how.For
	lowersLimit := false
	restarts := w.restarts(p.pod, p.pod)
	for i := range p.pod.Spec.Containers {
		want, has := p.pod.Spec.Containers[i].Resources, running(p.pod, i)
		lowersLimit = lowersLimit || want.Limits.Memory().Cmp(*has.Limits.Memory()) < 0
	}
	if how.How == "memory in use" && !lowersLimit {
		over = true
	}
	var c corev1.PodCondition
	switch {
	case !s.fits(p.pod.Spec.NodeName, p, cpu(p.pod), memory(p.pod)):
		c = corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonDeferred, Message: "node is full"}
		if s.world.Nodes > 0 && (cpu(p.pod) > s.world.Node.CPU || memory(p.pod) > s.world.Node.Memory<<20) {
			c.Reason = corev1.PodReasonInfeasible
		}
	case how.How == "" || over:
	case how.How == "silent":
		return
	case how.How == "deferred":
		c = corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonDeferred, Message: "node is full"}
	case how.How == "infeasible":
		c = corev1.PodCondition{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible, Message: "static CPU manager"}
	case how.How == "in progress":
		c = corev1.PodCondition{Type: corev1.PodResizeInProgress}
	case how.How == "error":
		c = corev1.PodCondition{Type: corev1.PodResizeInProgress, Reason: corev1.PodReasonError, Message: "cgroup not found"}
	case how.How == "memory in use":
		c = corev1.PodCondition{Type: corev1.PodResizeInProgress, Reason: corev1.PodReasonError,
			Message: "attempting to set pod memory limit below current usage; cannot decrease memory limits"}
	}
	if c.Type != "" {
		if old := condition(p.pod, c.Type); old == nil || old.Reason != c.Reason || old.Message != c.Message {
			c.Status, c.LastTransitionTime = corev1.ConditionTrue, s.at(minute)
			s.change(p, func(q *corev1.Pod) {
				drop(q, corev1.PodResizePending, corev1.PodResizeInProgress)
				set(q, c)
			})
		}
		return
	}
	s.note("resized %s to %s", p.pod.Name, show(p.pod))
	p.applied = minute
	s.change(p, func(q *corev1.Pod) {
		drop(q, corev1.PodResizePending, corev1.PodResizeInProgress)
		for i := range q.Spec.Containers {
			q.Status.ContainerStatuses[i].Resources = q.Spec.Containers[i].Resources.DeepCopy()
		}
	})
	if restarts {
		p.readyAt = minute + w.Start
	}
}

func equal(a, b corev1.ResourceRequirements) bool {
	same := func(a, b corev1.ResourceList) bool {
		return a.Cpu().Cmp(*b.Cpu()) == 0 && a.Memory().Cmp(*b.Memory()) == 0
	}
	return same(a.Requests, b.Requests) && same(a.Limits, b.Limits)
}

func condition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func set(p *corev1.Pod, c corev1.PodCondition) {
	if old := condition(p, c.Type); old != nil {
		*old = c
		return
	}
	p.Status.Conditions = append(p.Status.Conditions, c)
}

func drop(p *corev1.Pod, ts ...corev1.PodConditionType) {
	p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return slices.Contains(ts, c.Type) })
}

func isReady(p *corev1.Pod) bool {
	c := condition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func show(p *corev1.Pod) string {
	r := p.Spec.Containers[0].Resources.Requests
	return strings.Join([]string{r.Cpu().String(), r.Memory().String()}, "/")
}

// satisfied reports whether a pod runs with requests within the bounds of its current recommendation.
func (w *simulated) satisfied(p *replica) bool {
	if p.pod.DeletionTimestamp != nil || p.pod.Status.Phase != corev1.PodRunning {
		return false
	}
	r, known := w.bounds[p.pod]
	if !known {
		var err error
		if r, _, err = w.processor.Apply(w.vpa, p.pod); err != nil {
			panic(err)
		}
		w.bounds[p.pod] = r
	}
	for i := range r.ContainerRecommendations { // in the order of the pod's containers
		has := running(p.pod, i).Requests
		c := &r.ContainerRecommendations[i]
		for name, lower := range c.LowerBound {
			q, upper := has[name], c.UpperBound[name]
			if q.Cmp(lower) < 0 || q.Cmp(upper) > 0 {
				return false
			}
		}
	}
	return true
}

// A count is the number of pods of a workload at the end of a pass, by state.
type count struct{ satisfied, ready, pods int }

func (w *simulated) count() (c count) {
	for _, p := range w.pods {
		if p.pod.DeletionTimestamp != nil {
			continue
		}
		c.pods++
		if isReady(p.pod) {
			c.ready++
		}
		if w.satisfied(p) {
			c.satisfied++
		}
	}
	return c
}

// next returns the next minute with an event that no updater causes, or the last minute.
func (s *simulation) next(minute int) int {
	next := s.world.Minutes
	at := func(m int) {
		if m > minute {
			next = min(next, m)
		}
	}
	for _, w := range s.workloads {
		for _, a := range w.Advice {
			at(a.At)
		}
		for _, to := range w.Scales {
			at(to.At)
		}
		for _, unsized := range []*window{w.Unsized, w.Reset, w.everywhere} {
			if unsized != nil {
				at(unsized.From)
				at(unsized.To)
			}
		}
		for _, f := range w.Faults {
			at(f.When.From)
			at(f.When.To)
		}
	}
	return next
}

func nodeName(n int) string { return fmt.Sprintf("n%d", n) }
