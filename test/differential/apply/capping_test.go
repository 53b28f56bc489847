// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/routines"
	vpautil "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/test/differential/cases"
)

// Compares the sizes for the same pod, VPA and namespace, with these intended differences:
//
//	W-11  upstream panics where a pod LimitRange meets a container without recommendation or without bounds, and writes
//	      zero where it meets a resource that is not recommended
//	W-12  upstream's bounds may end up on the wrong side of its target

// Upstream logs every pod.
func init() { klog.SetLogger(logr.Discard()) }

// list converts amounts to a ResourceList.
func list(r cluster.Resources) corev1.ResourceList {
	if r.Has.Empty() {
		return nil
	}
	out := corev1.ResourceList{}
	if v, ok := r.Get(cluster.CPU); ok {
		out[corev1.ResourceCPU] = *resource.NewMilliQuantity(v, resource.DecimalSI)
	}
	if v, ok := r.Get(cluster.Memory); ok {
		out[corev1.ResourceMemory] = *resource.NewQuantity(v, resource.BinarySI)
	}
	return out
}

// amounts converts a ResourceList to amounts.
func amounts(l corev1.ResourceList) cluster.Resources {
	var r cluster.Resources
	if q, ok := l[corev1.ResourceCPU]; ok {
		r = r.Set(cluster.CPU, q.MilliValue())
	}
	if q, ok := l[corev1.ResourceMemory]; ok {
		r = r.Set(cluster.Memory, q.Value())
	}
	return r
}

// theirs converts a VPA to upstream's type.
func theirs(a *cluster.Autoscaler) *vpav1.VerticalPodAutoscaler {
	mode := vpav1.UpdateMode(a.Mode.String())
	v := &vpav1.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name, Annotations: map[string]string{}},
		Spec: vpav1.VerticalPodAutoscalerSpec{
			UpdatePolicy:   &vpav1.PodUpdatePolicy{UpdateMode: &mode},
			ResourcePolicy: &vpav1.PodResourcePolicy{},
		},
		Status: vpav1.VerticalPodAutoscalerStatus{Recommendation: &vpav1.RecommendedPodResources{}},
	}
	if a.MinReplicas > 0 {
		v.Spec.UpdatePolicy.MinReplicas = &a.MinReplicas
	}
	for _, r := range a.Requirements {
		change := vpav1.TargetLowerThanRequests
		if r.Higher {
			change = vpav1.TargetHigherThanRequests
		}
		var names []corev1.ResourceName
		for _, res := range cluster.All {
			if r.Resources.Has(res) {
				names = append(names, corev1.ResourceName(res.String()))
			}
		}
		v.Spec.UpdatePolicy.EvictionRequirements = append(v.Spec.UpdatePolicy.EvictionRequirements,
			&vpav1.EvictionRequirement{Resources: names, ChangeRequirement: change})
	}
	for _, p := range a.Policies {
		cp := vpav1.ContainerResourcePolicy{ContainerName: p.Container, MinAllowed: list(p.MinAllowed), MaxAllowed: list(p.MaxAllowed)}
		if p.Off {
			off := vpav1.ContainerScalingModeOff
			cp.Mode = &off
		}
		if p.RequestsOnly {
			only := vpav1.ContainerControlledValuesRequestsOnly
			cp.ControlledValues = &only
		}
		v.Spec.ResourcePolicy.ContainerPolicies = append(v.Spec.ResourcePolicy.ContainerPolicies, cp)
	}
	for _, c := range a.IntegerCPU {
		v.Annotations["vpa-post-processor.kubernetes.io/"+c+"_integerCPU"] = "true"
	}
	v.Status.Recommendation.ContainerRecommendations = recommendations(a.Advice)
	return v
}

func recommendations(as []cluster.Advice) []vpav1.RecommendedContainerResources {
	var out []vpav1.RecommendedContainerResources
	for _, adv := range as {
		out = append(out, vpav1.RecommendedContainerResources{
			ContainerName: adv.Container, Target: list(adv.Target), LowerBound: list(adv.Lower),
			UpperBound: list(adv.Upper), UncappedTarget: list(adv.Uncapped),
		})
	}
	return out
}

// pod converts a pod to the API type.
func pod(p *cluster.Pod) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID), CreationTimestamp: metav1.NewTime(p.Created),
		},
		Spec:   corev1.PodSpec{NodeName: p.Node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if p.Phase == cluster.Pending {
		out.Status.Phase = corev1.PodPending
	}
	if !p.Started.IsZero() {
		started := metav1.NewTime(p.Started)
		out.Status.StartTime = &started
	}
	if p.Marks != nil && p.Marks.Observed != nil {
		out.Annotations = map[string]string{"vpaObservedContainers": *p.Marks.Observed}
	}
	if !p.Controller.IsZero() {
		yes := true
		out.OwnerReferences = []metav1.OwnerReference{{Kind: p.Controller.Kind, Name: p.Controller.Name, Controller: &yes}}
	}
	for _, c := range p.Containers {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{
			Name: c.Name, Resources: corev1.ResourceRequirements{Requests: list(c.Requests), Limits: list(c.Limits)},
		})
		status := corev1.ContainerStatus{Name: c.Name}
		if c.Applied != nil {
			status.Resources = &corev1.ResourceRequirements{Requests: list(c.Applied.Requests), Limits: list(c.Applied.Limits)}
		}
		if e := c.Exit; e != nil {
			reason := "Error"
			if e.OOM {
				reason = "OOMKilled"
			}
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				Reason: reason, StartedAt: metav1.NewTime(e.Started), FinishedAt: metav1.NewTime(e.Finished),
			}
		}
		out.Status.ContainerStatuses = append(out.Status.ContainerStatuses, status)
	}
	return out
}

// all converts several pods.
func all(pods []*cluster.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range pods {
		out = append(out, pod(p))
	}
	return out
}

// negative reports whether an amount is below zero.
func negative(ls ...corev1.ResourceList) bool {
	for _, l := range ls {
		for _, q := range l {
			if q.Sign() < 0 {
				return true
			}
		}
	}
	return false
}

// limitRanges provides the LimitRanges of a namespace to upstream's code.
type limitRanges struct{ l cluster.LimitRange }

func (r limitRanges) GetContainerLimitRangeItem(string) (*corev1.LimitRangeItem, error) {
	return item(corev1.LimitTypeContainer, r.l.Container), nil
}

func (r limitRanges) GetPodLimitRangeItem(string) (*corev1.LimitRangeItem, error) {
	return item(corev1.LimitTypePod, r.l.Pod), nil
}

func item(t corev1.LimitType, r cluster.Range) *corev1.LimitRangeItem {
	if r == (cluster.Range{}) {
		return nil
	}
	return &corev1.LimitRangeItem{Type: t, Min: list(r.Min), Max: list(r.Max), Default: list(r.Default)}
}

// A maker generates random objects.
type maker struct{ cases.Dice }

// check compares a number of cases.
func check(t *testing.T, usual int, compare func(*rapid.T, maker)) {
	t.Helper()
	cases.Check(t, usual, func(t *rapid.T) { compare(t, maker{cases.Dice{T: t}}) })
}

func (m maker) resources(has cluster.Set) cluster.Resources {
	var r cluster.Resources
	for _, res := range cluster.All {
		if has.Has(res) {
			r = r.Set(res, m.Amount(res))
		}
	}
	return r
}

// some returns amounts of some resources.
func (m maker) some() cluster.Resources { return m.resources(cluster.Set(m.IntN(4))) }

// estimate returns ordered bounds.
func (m maker) estimate(has cluster.Set) cluster.Estimate {
	var e cluster.Estimate
	for _, res := range cluster.All {
		if has.Has(res) {
			v := []int64{m.Amount(res), m.Amount(res), m.Amount(res)}
			slices.Sort(v)
			e.Lower, e.Target, e.Upper = e.Lower.Set(res, v[0]), e.Target.Set(res, v[1]), e.Upper.Set(res, v[2])
		}
	}
	return e
}

// containers returns up to n containers.
func (m maker) containers(most int) []cluster.Container {
	cs := cases.Several(m.Dice, 1, most, func(d cases.Dice) cluster.Container {
		m := maker{d}
		c := cluster.Container{Requests: m.some()}
		if m.OneIn(2) {
			c.Requests = m.resources(cluster.Both)
		}
		for _, res := range cluster.All {
			request, ok := c.Requests.Get(res)
			switch m.IntN(4) {
			case 0:
				c.Limits = c.Limits.Set(res, request+m.Amount(res))
			case 1:
				if ok {
					c.Limits = c.Limits.Set(res, request)
				}
			case 2:
				if ok {
					c.Limits = c.Limits.Set(res, request*(1+m.Int64N(4)))
				}
			}
		}
		return c
	})
	for i := range cs {
		cs[i].Name, cs[i].Index = string(rune('a'+i)), uint8(i)
	}
	return cs
}

// autoscaler returns a VPA with recommendations for some of the containers.
func (m maker) autoscaler(cs []cluster.Container) *cluster.Autoscaler {
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "cart"}}
	names := []string{"*"}
	for _, c := range cs {
		names = append(names, c.Name)
	}
	for _, name := range names {
		if m.OneIn(2) {
			continue
		}
		cp := cluster.ContainerPolicy{Container: name, RequestsOnly: m.OneIn(3), Off: m.OneIn(8)}
		if !cp.Off {
			cp.MinAllowed, cp.MaxAllowed = m.some(), m.some()
		}
		a.Policies = append(a.Policies, cp)
	}
	has := cluster.Both
	if m.OneIn(4) {
		has = cluster.Set(1 + m.IntN(2))
	}
	for _, c := range cs {
		if cp := a.Policy(c.Name); !m.OneIn(8) && (cp == nil || !cp.Off) {
			adv := cluster.Advice{Container: c.Name, Estimate: m.estimate(has)}
			adv.Uncapped = adv.Target
			a.Advice = append(a.Advice, adv)
		}
	}
	return a
}

func (m maker) limitRange() cluster.LimitRange {
	var l cluster.LimitRange
	if m.OneIn(2) {
		l.Container = cluster.Range{Min: m.some(), Max: m.some(), Default: m.some()}
	}
	if m.OneIn(2) {
		l.Pod = cluster.Range{Min: m.some(), Max: m.some()}
	}
	return l
}

func TestCap_randomPolicies_equalsUpstream(t *testing.T) {
	check(t, 20_000, func(t *rapid.T, m maker) {
		a := m.autoscaler(m.containers(4))
		for _, adv := range a.Advice {
			if m.OneIn(3) {
				a.IntegerCPU = append(a.IntegerCPU, adv.Container)
			}
		}
		global := m.some()
		v := theirs(a)
		capped := (&routines.IntegerCPUPostProcessor{}).Process(v, v.Status.Recommendation)
		capped, err := vpautil.ApplyVPAPolicy(capped, v.Spec.ResourcePolicy, list(global))
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range policy.Cap(a, a.Advice, global, cluster.NodeShare{}) {
			u := capped.ContainerRecommendations[i]
			want := cluster.Advice{Container: u.ContainerName, Uncapped: amounts(u.UncappedTarget), Estimate: cluster.Estimate{
				Lower: amounts(u.LowerBound), Target: amounts(u.Target), Upper: amounts(u.UpperBound),
			}}
			if !got.Equal(want) {
				t.Fatalf("got  %+v\nwant %+v\nglobally at most %s\n%s", got, want, global, cases.Show(v))
			}
		}
	})
}

// upstreamFit is upstream's result for a pod: sizes and annotations.
type upstreamFit struct {
	estimates map[string]cluster.Estimate
	requests  map[string]cluster.Resources
	limits    map[string]cluster.Resources
	said      map[string][]string // by container, sorted, because upstream's order is that of a map
	negative  bool
	panicked  string
}

func upstream(a *cluster.Autoscaler, l cluster.LimitRange, p *cluster.Pod) (u upstreamFit) {
	defer func() {
		if r := recover(); r != nil {
			u.panicked = fmt.Sprint(r)
		}
	}()
	v, kubePod := theirs(a), pod(p)
	processor := vpautil.NewCappingRecommendationProcessor(limitRanges{l})
	capped, _, err := processor.Apply(v, kubePod)
	if err != nil {
		panic(err)
	}
	u.estimates = map[string]cluster.Estimate{}
	for _, r := range capped.ContainerRecommendations {
		u.estimates[r.ContainerName] = cluster.Estimate{
			Lower: amounts(r.LowerBound), Target: amounts(r.Target), Upper: amounts(r.UpperBound),
		}
		u.negative = u.negative || negative(r.LowerBound, r.Target, r.UpperBound)
	}
	provider := recommendation.NewProvider(limitRanges{l}, processor)
	all, _, err := provider.GetContainersResourcesForPod(kubePod, v)
	if err != nil {
		panic(err)
	}
	u.requests, u.limits = map[string]cluster.Resources{}, map[string]cluster.Resources{}
	for i, r := range all {
		u.requests[p.Containers[i].Name], u.limits[p.Containers[i].Name] = amounts(r.Requests), amounts(r.Limits)
		u.negative = u.negative || negative(r.Requests, r.Limits)
	}
	patches, err := patch.NewResourceUpdatesCalculator(provider, resource.QuantityValue{}).CalculatePatches(kubePod, v)
	if err != nil {
		panic(err)
	}
	for _, patch := range patches {
		if strings.HasSuffix(patch.Path, "/vpaUpdates") {
			u.said = said(patch.Value.(string))
		}
	}
	return u
}

// said parses the annotation vpaUpdates. Upstream also lists containers for which it only created an empty object.
func said(annotation string) map[string][]string {
	out := map[string][]string{}
	_, annotation, _ = strings.Cut(annotation, "Pod resources updated by cart: ")
	for _, part := range strings.Split(annotation, "; ") {
		name, notes, _ := strings.Cut(part, ": ")
		if notes == "" {
			continue
		}
		words := strings.Split(notes, ", ")
		slices.Sort(words)
		out[name] = words
	}
	return out
}

// inOrder returns upstream's bounds in the order that W-12 requires.
func inOrder(e cluster.Estimate) cluster.Estimate {
	for _, res := range cluster.All {
		t, ok := e.Target.Get(res)
		if !ok {
			continue
		}
		if v, ok := e.Lower.Get(res); ok {
			e.Lower = e.Lower.Set(res, min(v, t))
		}
		if v, ok := e.Upper.Get(res); ok {
			e.Upper = e.Upper.Set(res, max(v, t))
		}
	}
	return e
}

func TestFit_randomPods_equalsUpstream(t *testing.T) {
	var made, compared, panicked, disordered, refused int
	check(t, 40_000, func(t *rapid.T, m maker) {
		made++
		p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "cart-0"}, Containers: m.containers(4)}
		for i := range p.Containers {
			if c := &p.Containers[i]; m.OneIn(4) {
				c.Applied = &cluster.Applied{Requests: c.Requests, Limits: c.Limits}
				other := m.containers(1)[0]
				c.Requests, c.Limits = other.Requests, other.Limits
			}
		}
		a := m.autoscaler(p.Containers)
		l := m.limitRange()
		fits := policy.Fit(a, policy.Limits{Range: l}, p)
		u := upstream(a, l, p)
		if u.panicked != "" {
			panicked++
			if l.Pod == (cluster.Range{}) {
				t.Fatalf("upstream panicked for another reason than W-11: %s\n%s", u.panicked, cases.Show(theirs(a), pod(p)))
			}
			return
		}
		if len(a.Advice) == 0 {
			return // a pod without recommendation is not changed, even with a pod LimitRange
		}
		if l.Pod != (cluster.Range{}) && mixed(a, p) {
			return // W-11: upstream uses zero, and may write zero
		}
		if u.negative {
			return // see TestFit_shareBelowOneByte_isZero
		}
		if slices.ContainsFunc(fits, held) && isRefused(l, p, u) {
			refused++ // podfit's result is tested in test/admission
			return
		}
		compared++
		report := func(what string, got, want any) {
			t.Fatalf("%s\ngot  %+v\nwant %+v\nlimits %+v\n%s", what, got, want, l, cases.Show(theirs(a), pod(p)))
		}
		requests, limits := map[string]cluster.Resources{}, map[string]cluster.Resources{}
		for _, c := range p.Containers {
			requests[c.Name], limits[c.Name] = cluster.Resources{}, cluster.Resources{}
		}
		for _, f := range fits {
			want := u.estimates[f.Container]
			if inOrder(want) != want {
				disordered++
			}
			if f.Estimate != inOrder(want) {
				report("estimate of "+f.Container, f.Estimate, inOrder(want))
			}
			requests[f.Container], limits[f.Container] = f.Requests, f.Limits
		}
		if !maps.Equal(requests, u.requests) {
			report("requests", requests, u.requests)
		}
		if !maps.Equal(limits, u.limits) {
			report("limits", limits, u.limits)
		}
		if got := said(policy.Annotation(a, fits)); !maps.EqualFunc(got, u.said, slices.Equal) {
			report("annotation", got, u.said)
		}
	})
	t.Logf("%d pods compared; upstream panicked on %d (W-11), returned bounds in the wrong order for %d containers (W-12), and sizes that the API server refuses for %d pods",
		compared, panicked, disordered, refused)
	if compared < made/3 || refused == 0 || panicked == 0 || disordered == 0 {
		t.Error("the cases do not cover all differences")
	}
}

// held reports whether podfit changed a size because the API server would refuse it.
func held(f policy.Fitted) bool {
	return slices.ContainsFunc(f.Notes, func(n admissible.Note) bool { return n.Kind == admissible.HeldToAdmitted })
}

// isRefused reports whether the API server refuses a pod with the sizes that upstream gives it.
func isRefused(l cluster.LimitRange, p *cluster.Pod, u upstreamFit) bool {
	var fits []policy.Fitted
	for _, c := range p.Containers {
		fits = append(fits, policy.Fitted{Container: c.Name, Requests: u.requests[c.Name], Limits: u.limits[c.Name]})
	}
	return admissible.Refused(policy.Limits{Range: l}, p, fits).Refused()
}

// A share of a pod LimitRange below one byte is zero for podfit. Upstream rounds it to -1 byte, which the API server refuses, so
// that no pod can be created.
func TestFit_shareBelowOneByte_isZero(t *testing.T) {
	mebibyte := cluster.Resources{}.Set(cluster.Memory, 1<<20)
	a := &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "cart"}}
	p := &cluster.Pod{Key: cluster.Key{Namespace: "shop", Name: "cart-0"}}
	for _, name := range []string{"a", "b", "c"} {
		p.Containers = append(p.Containers, cluster.Container{Name: name, Requests: mebibyte, Limits: mebibyte})
		a.Advice = append(a.Advice, cluster.Advice{Container: name, Estimate: cluster.Estimate{Lower: mebibyte, Target: mebibyte, Upper: mebibyte}})
	}
	l := cluster.LimitRange{Pod: cluster.Range{Max: cluster.Resources{}.Set(cluster.Memory, 2)}}
	if u := upstream(a, l, p); !u.negative || u.requests["a"].Memory != -1 {
		t.Errorf("upstream's requests are %v", u.requests)
	}
	fits := policy.Fit(a, policy.Limits{Range: l}, p)
	if len(fits) != 3 {
		t.Errorf("podfit sets %+v", fits)
	}
	for _, f := range fits {
		if f.Requests.Memory != 0 || f.Limits.Memory != 0 {
			t.Errorf("podfit's are %v, limits %v", f.Requests, f.Limits)
		}
	}
}

// mixed reports whether a resource is recommended for some containers of a pod and not for others.
func mixed(a *cluster.Autoscaler, p *cluster.Pod) bool {
	var has, lacks cluster.Set
	for _, c := range p.Containers {
		target := c.Requests
		if c.Applied != nil {
			target = c.Applied.Requests
		}
		if adv := a.AdviceFor(c.Name); adv != nil {
			target = adv.Target
		}
		has |= target.Has
		lacks |= cluster.Both &^ target.Has
	}
	return has&lacks != 0
}
