// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/policy"
	"podfit.dev/podfit/internal/edge/kube"
)

// stateTooLarge is the size of an object, in bytes of JSON, above which its status is ignored. The metadata is part of it.
const stateTooLarge = v1alpha1.MaxUpdateStateSize + 160<<10

// outcomeDone is the outcome of an action that was carried out.
const outcomeDone = "Done"

// outcomes are the names of the outcomes of other actions. They are stored, so they are never changed.
var outcomes = map[decision.RefusalKind]string{
	decision.Denied: "Denied", decision.DeniedByBudget: "DisruptionBudget", decision.DeniedByNode: "NodeCapacity", decision.DeniedByQuota: "Quota",
	decision.Unsupported: "Unsupported", decision.WebhookFailed: "WebhookFailed", decision.ServerBusy: "ServerBusy", decision.NotReached: "NotReached",
	decision.OutcomeIsUnknown: "NoAnswer", decision.NotReadyInTime: "NotReadyInTime",
}

// actions are the names of the actions. They are stored, so they are never changed.
var actions = map[decision.Act]string{decision.Evict: "Evict", decision.Resize: "Resize", decision.Delete: "Delete", decision.Surge: "Surge"}

// named returns the key of a name.
func named[K comparable](names map[K]string, name string) (K, bool) {
	for k, n := range names {
		if n == name {
			return k, true
		}
	}
	var none K
	return none, false
}

// updateStateSpec returns the spec of an object.
func updateStateSpec(w cluster.Workload) v1alpha1.UpdateStateSpec {
	return v1alpha1.UpdateStateSpec{Target: reference(w)}
}

func reference(w cluster.Workload) v1alpha1.WorkloadReference {
	return v1alpha1.WorkloadReference{Group: w.Group, Kind: w.Kind, Name: w.Name}
}

// updateStateStatus returns the status of an object, without the time and the writer. It leaves out records until the object is within
// its limits.
func updateStateStatus(s *ledger.State) v1alpha1.UpdateStateStatus {
	out := v1alpha1.UpdateStateStatus{
		ActingSince: micro(s.ActingSince), ActingNewestPod: seconds(s.ActingNewest), LastEviction: micro(s.LastEviction), OmittedPods: int32(s.Omitted),
		Evictions: storeEviction(s.Eviction), LastDeletion: storeDeletion(s.Deletion), Capacity: storeCapacity(s.Capacity),
	}
	if r := s.Rounds; r != nil {
		out.EvictionRounds = &v1alpha1.EvictionRounds{LastTime: metav1.NewMicroTime(r.At), NewestPod: micro(r.Newest), Count: int32(r.Count)}
	}
	out.ActingOn = converted(s.Acting[max(0, len(s.Acting)-v1alpha1.MaxActingGroups):], storeActing)
	out.RoomShortages = converted(s.Shortages, storeShortage)
	out.Pods = converted(s.Pods, storePod)
	out.MissingReplacements = converted(s.Replacements, storeReplacement)
	out.WaitingPods = converted(s.Waiting[:min(len(s.Waiting), v1alpha1.MaxWaitingPods)], storeWaiting)
	out.Changes = converted(s.Changes[max(0, len(s.Changes)-v1alpha1.MaxRequestChanges):], storeChange)
	out.Canary = storeCanary(s.Canary)
	spec := updateStateSpec(s.Workload)
	for isTooLarge(&spec, &out) {
		dropRecord(&out)
	}
	return out
}

// writeOverhead is the maximum size of the time and the writer in a status, in bytes of JSON.
const writeOverhead = 512

func isTooLarge(spec *v1alpha1.UpdateStateSpec, s *v1alpha1.UpdateStateStatus) bool {
	if len(s.Pods)+len(s.MissingReplacements)+len(s.RoomShortages) == 0 && s.Evictions == nil {
		return false
	}
	raw, err := json.Marshal(struct {
		Spec   *v1alpha1.UpdateStateSpec   `json:"spec"`
		Status *v1alpha1.UpdateStateStatus `json:"status"`
	}{spec, s})
	return err != nil || len(raw) > v1alpha1.MaxUpdateStateSize-writeOverhead
}

// dropRecord leaves out the least important record: the pod with the oldest attempt, then what is rarely needed.
func dropRecord(s *v1alpha1.UpdateStateStatus) {
	switch {
	case len(s.Pods) > 0:
		s.Pods = s.Pods[:len(s.Pods)-1]
		s.OmittedPods++
	case s.Evictions != nil && s.Evictions.Before != nil:
		s.Evictions.Before = nil
	case len(s.RoomShortages) > 0:
		s.RoomShortages = s.RoomShortages[:len(s.RoomShortages)-1]
	case len(s.MissingReplacements) > 0:
		s.MissingReplacements = s.MissingReplacements[:len(s.MissingReplacements)-1]
	default:
		s.Evictions = nil
	}
}

// converted returns what convert returns for each item of a list; nil if there is none.
func converted[Item, Value any](list []Item, convert func(*Item) Value) []Value {
	var out []Value
	for i := range list {
		out = append(out, convert(&list[i]))
	}
	return out
}

func storeShortage(x *ledger.ShortageState) v1alpha1.RoomShortage {
	return v1alpha1.RoomShortage{
		Name: x.Name, UID: x.UID, Since: metav1.NewMicroTime(x.Since), PartialResizes: int32(x.Parts), MovedPods: int32(x.Moves),
		Requested: storeSizes(x.With),
	}
}

func storeReplacement(r *ledger.PendingState) v1alpha1.MissingReplacement {
	return v1alpha1.MissingReplacement{
		Controller: reference(r.Controller), VerticalPodAutoscaler: r.Autoscaler.Name, CompleteSince: micro(r.Complete), Replaced: r.Replaced, MostReplicas: r.Most,
		Evicted: converted(r.Evicted, func(e *ledger.EvictedPod) v1alpha1.EvictedPod {
			return v1alpha1.EvictedPod{UID: e.UID, Time: metav1.NewMicroTime(e.At), NewestPod: micro(e.Newest)}
		}),
	}
}

func storePod(p *ledger.PodState) v1alpha1.PodUpdate {
	out := v1alpha1.PodUpdate{
		Name: p.Name, UID: p.UID, Action: actions[p.Do], Outcome: outcomeDone, Attempts: int32(p.Attempts),
		LastTime: metav1.NewMicroTime(p.At), Requested: storeSizes(p.With),
	}
	if !p.Next.IsZero() {
		out.NextTime = new(metav1.NewTime(p.Next))
	}
	if f := p.Failed; f != nil {
		out.Outcome, out.Message = outcomes[f.Kind], f.Text
		out.TransientFailures, out.ReadyPods = int32(f.Transient), int32(f.Ready)
		out.LastUnanswered = micro(f.Lost)
		out.UnansweredSince = micro(f.LostSince)
		out.FailingSince = micro(f.Failing)
		out.OverQuota, out.OverQuotaTime, out.OverQuotaTotal = storeSizes(f.OverQuota), micro(f.OverQuotaAt), storeTotal(f.OverQuotaTotal)
	}
	return out
}

func storeEviction(e *ledger.EvictionState) *v1alpha1.EvictionRecord {
	if e == nil {
		return nil
	}
	out := &v1alpha1.EvictionRecord{
		LastTime: metav1.NewMicroTime(e.At), NewestPod: micro(e.Newest), Requested: storeSizes(e.With),
		Ineffective: int32(e.Ineffective), Judged: e.Judged, UnansweredPod: e.Uncertain,
		Superseded: storeSizes(e.Superseded), Previous: storeSizes(e.Previous),
	}
	if b := e.Before; b != nil {
		out.Before = &v1alpha1.PriorEviction{
			LastTime: metav1.NewMicroTime(b.At), NewestPod: micro(b.Newest), Requested: storeSizes(b.With),
			Ineffective: int32(b.Ineffective), Judged: b.Judged,
		}
	}
	return out
}

func storeDeletion(d *ledger.DeletionState) *v1alpha1.DeletionRecord {
	if d == nil {
		return nil
	}
	return &v1alpha1.DeletionRecord{
		LastTime: metav1.NewMicroTime(d.At), NewestPod: micro(d.Newest), UID: d.UID,
		Memory: resource.NewQuantity(d.Memory, resource.BinarySI), Ineffective: int32(d.Again),
	}
}

func storeCapacity(c *headroom.State) *v1alpha1.CapacityRecord {
	if c == nil {
		return nil
	}
	return &v1alpha1.CapacityRecord{
		UID: c.UID, Pod: c.Pod, RequestTime: micro(c.Requested), Failures: int32(c.Failures), FailureTime: micro(c.Failed), Message: c.Text,
	}
}

func loadCapacity(c *v1alpha1.CapacityRecord) (*headroom.State, error) {
	return &headroom.State{
		UID: c.UID, Pod: c.Pod, Requested: fromMicro(c.RequestTime), Failures: int(c.Failures), Failed: fromMicro(c.FailureTime), Text: c.Message,
	}, nil
}

func storeSizes(with []policy.Fitted) []v1alpha1.RequestedSize {
	return converted(with, func(f *policy.Fitted) v1alpha1.RequestedSize {
		return v1alpha1.RequestedSize{Container: f.Container, Requests: storeAmounts(f.Requests), Limits: storeAmounts(f.Limits), Inserted: f.Inserted}
	})
}

func storeTotal(t cluster.PodResources) *v1alpha1.RequestedTotal {
	if t == (cluster.PodResources{}) {
		return nil
	}
	return &v1alpha1.RequestedTotal{Requests: storeAmounts(t.Requests), Limits: storeAmounts(t.Limits)}
}

func storeAmounts(r cluster.Resources) *v1alpha1.RequestedAmounts {
	if r.Has.Empty() {
		return nil
	}
	out := new(v1alpha1.RequestedAmounts)
	if cpu, ok := r.Get(cluster.CPU); ok {
		out.CPU = resource.NewMilliQuantity(cpu, resource.DecimalSI)
	}
	if memory, ok := r.Get(cluster.Memory); ok {
		out.Memory = resource.NewQuantity(memory, resource.BinarySI)
	}
	return out
}

// micro returns a time of the API, or nil if the time is zero. The API has microseconds.
func micro(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewMicroTime(t))
}

// fromMicro returns a time of the API, or the zero time if it is not set or cannot be written again.
func fromMicro(t *metav1.MicroTime) time.Time {
	if t == nil || t.IsZero() || !kube.HasJSONForm(t.Time) {
		return time.Time{}
	}
	return t.UTC()
}

// An updateStateObject is an UpdateState.
type updateStateObject struct{ storedObject }

// at returns what is known about the object with a checksum of its content.
func (o *updateStateObject) at(sum uint64) stateAt {
	return stateAt{storedAt: o.storedObject.at(), uid: o.Metadata.UID, sum: sum}
}

// name returns the namespace and name of the object, for messages.
func (o *updateStateObject) name() string { return o.Metadata.Namespace + "/" + o.Metadata.Name }

// key returns the workload of the object.
func (o *updateStateObject) key() (cluster.Workload, error) {
	var s v1alpha1.UpdateStateSpec
	if err := json.Unmarshal(o.Spec, &s); err != nil {
		return cluster.Workload{}, fmt.Errorf("decode spec: %w", err)
	}
	w := o.inNamespace(&s.Target)
	if w.Kind == "" || w.Name == "" {
		return cluster.Workload{}, errors.New("spec.target has no kind or no name")
	}
	return w, nil
}

func (o *updateStateObject) inNamespace(r *v1alpha1.WorkloadReference) cluster.Workload {
	return cluster.Workload{Group: r.Group, Kind: r.Kind, Namespace: o.Metadata.Namespace, Name: r.Name}
}

// state returns the stored state of a workload, without the parts that cannot be decoded, and the errors of these parts.
func (o *updateStateObject) state(w cluster.Workload) (ledger.State, error) {
	out := ledger.State{Workload: w}
	if o.size > 0 {
		return out, fmt.Errorf("the object has %d bytes, and at most %d are read", o.size, stateTooLarge)
	}
	if len(o.Status) == 0 {
		return out, nil
	}
	var d statusDecoder
	if err := json.Unmarshal(o.Status, &d.parts); err != nil {
		return out, fmt.Errorf("decode status: %w", err)
	}
	out.ActingSince = decodePart(&d, "actingSince", loadTime)
	out.ActingNewest = decodePart(&d, "actingNewestPod", func(t *metav1.Time) (time.Time, error) { return fromSeconds(t), nil })
	out.LastEviction = decodePart(&d, "lastEviction", loadTime)
	out.Acting = decodeEach(&d, "actingOn", v1alpha1.MaxActingGroups, o.loadActing)
	out.Eviction = decodePart(&d, "evictions", loadEviction)
	out.Deletion = decodePart(&d, "lastDeletion", loadDeletion)
	out.Rounds = decodePart(&d, "evictionRounds", loadRounds)
	out.Shortages = decodeEach(&d, "roomShortages", v1alpha1.MaxRoomShortages, loadShortage)
	out.Capacity = decodePart(&d, "capacity", ifValid(&d, loadCapacity))
	out.Replacements = decodeEach(&d, "missingReplacements", v1alpha1.MaxMissingReplacements, o.loadReplacement)
	out.Pods = decodeEach(&d, "pods", v1alpha1.MaxPodUpdates, loadPod)
	out.Changes = decodeEach(&d, "changes", v1alpha1.MaxRequestChanges, loadChange)
	out.Waiting = decodeEach(&d, "waitingPods", v1alpha1.MaxWaitingPods, loadWaiting)
	out.Canary = decodePart(&d, "canary", ifValid(&d, o.loadCanary))
	return out, errors.Join(d.errs[:min(len(d.errs), maxPartErrors)]...)
}

// maxPartErrors bounds the errors of one object in a log message.
const maxPartErrors = 3

// A statusDecoder decodes the parts of a status separately, and has the errors of those that cannot be decoded.
type statusDecoder struct {
	parts map[string]json.RawMessage
	errs  []error
}

func (d *statusDecoder) failed(name string, err error) {
	d.errs = append(d.errs, fmt.Errorf("decode %s: %w", name, err))
}

// decodePart returns what load returns for a part without the fields that cannot be decoded, and zero if there is none.
func decodePart[Item, Value any](d *statusDecoder, name string, load func(*Item) (Value, error)) Value {
	var none Value
	raw := d.parts[name]
	if len(raw) == 0 || string(raw) == "null" {
		return none
	}
	var item Item
	if err := json.Unmarshal(raw, &item); err != nil {
		d.failed(name, err)
	}
	value, err := load(&item)
	if err != nil && !errors.Is(err, errEmpty) {
		d.failed(name, err)
	}
	if err != nil {
		return none
	}
	return value
}

// ifValid returns load for a part that is left out if one of its fields cannot be decoded.
func ifValid[Item, Value any](d *statusDecoder, load func(*Item) (Value, error)) func(*Item) (Value, error) {
	before := len(d.errs)
	return func(item *Item) (Value, error) {
		if len(d.errs) > before {
			var none Value
			return none, errEmpty
		}
		return load(item)
	}
}

// errEmpty is the error of an item or a part without content, which is left out without a message.
var errEmpty = errors.New("the item has no content")

// decodeEach returns what load returns for the items of a list that can be decoded, at most a maximum number of items, and adds the errors of
// the others.
func decodeEach[Item, Value any](d *statusDecoder, name string, most int, load func(*Item) (Value, error)) []Value {
	var items []json.RawMessage
	if raw := d.parts[name]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &items); err != nil {
			d.failed(name, err)
		}
	}
	if len(items) > most {
		d.errs = append(d.errs, fmt.Errorf("%s has %d entries; the first %d are read", name, len(items), most))
		items = items[:most]
	}
	var out []Value
	for i, encoded := range items {
		var item Item
		var value Value
		err := json.Unmarshal(encoded, &item)
		if err == nil {
			value, err = load(&item)
		}
		if err == nil {
			out = append(out, value)
		} else if !errors.Is(err, errEmpty) {
			d.failed(fmt.Sprintf("%s[%d]", name, i), err)
		}
	}
	return out
}

func loadTime(t *metav1.MicroTime) (time.Time, error) { return fromMicro(t), nil }

func (o *updateStateObject) loadReplacement(m *v1alpha1.MissingReplacement) (ledger.PendingState, error) {
	out := ledger.PendingState{
		Controller: o.inNamespace(&m.Controller),
		Autoscaler: cluster.Key{Namespace: o.Metadata.Namespace, Name: m.VerticalPodAutoscaler},
		Complete:   fromMicro(m.CompleteSince),
		Replaced:   m.Replaced,
		Most:       m.MostReplicas,
	}
	for _, e := range m.Evicted[:min(len(m.Evicted), v1alpha1.MaxEvictedPods)] {
		out.Evicted = append(out.Evicted, ledger.EvictedPod{UID: e.UID, At: fromMicro(&e.Time), Newest: fromMicro(e.NewestPod)})
	}
	return out, nil
}

func loadEviction(e *v1alpha1.EvictionRecord) (*ledger.EvictionState, error) {
	if e.LastTime.IsZero() {
		return nil, errEmpty
	}
	with, err := loadSizes(e.Requested)
	superseded, supersededErr := loadSizes(e.Superseded)
	previous, previousErr := loadSizes(e.Previous)
	if err := errors.Join(err, supersededErr, previousErr); err != nil {
		return nil, err
	}
	out := &ledger.EvictionState{
		At: fromMicro(&e.LastTime), Newest: fromMicro(e.NewestPod), With: with, Ineffective: int(e.Ineffective),
		Judged: e.Judged, Superseded: superseded, Previous: previous, Uncertain: e.UnansweredPod,
	}
	if b := e.Before; b != nil {
		with, err := loadSizes(b.Requested)
		if err != nil {
			return nil, err
		}
		out.Before = &ledger.EvictionState{
			At: fromMicro(&b.LastTime), Newest: fromMicro(b.NewestPod), With: with, Ineffective: int(b.Ineffective), Judged: b.Judged,
		}
	}
	return out, nil
}

func loadRounds(r *v1alpha1.EvictionRounds) (*ledger.RoundsState, error) {
	if r.LastTime.IsZero() {
		return nil, errEmpty
	}
	return &ledger.RoundsState{At: fromMicro(&r.LastTime), Newest: fromMicro(r.NewestPod), Count: int(r.Count)}, nil
}

func loadDeletion(d *v1alpha1.DeletionRecord) (*ledger.DeletionState, error) {
	if d.LastTime.IsZero() {
		return nil, errEmpty
	}
	out := &ledger.DeletionState{At: fromMicro(&d.LastTime), Newest: fromMicro(d.NewestPod), UID: d.UID, Again: int(d.Ineffective)}
	if d.Memory != nil {
		out.Memory = d.Memory.Value()
	}
	return out, nil
}

func loadShortage(x *v1alpha1.RoomShortage) (ledger.ShortageState, error) {
	with, err := loadSizes(x.Requested)
	if err != nil {
		return ledger.ShortageState{}, err
	}
	out := ledger.ShortageState{
		UID: x.UID, Name: x.Name, Since: fromMicro(&x.Since), With: with, Parts: int(x.PartialResizes), Moves: int(x.MovedPods),
	}
	switch {
	case out.UID == "":
		return out, errors.New("no uid")
	case out.Since.IsZero():
		return out, errors.New("no since")
	}
	return out, nil
}

func loadPod(u *v1alpha1.PodUpdate) (ledger.PodState, error) {
	do, ok := named(actions, u.Action)
	if !ok {
		return ledger.PodState{}, fmt.Errorf("unknown action %.40q", u.Action)
	}
	with, err := loadSizes(u.Requested)
	over, overErr := loadSizes(u.OverQuota)
	total, totalErr := loadTotal(u.OverQuotaTotal)
	if err := errors.Join(err, overErr, totalErr); err != nil {
		return ledger.PodState{}, err
	}
	out := ledger.PodState{UID: u.UID, Name: u.Name, Do: do, At: fromMicro(&u.LastTime), Attempts: int(u.Attempts), With: with}
	switch {
	case u.UID == "":
		return out, errors.New("no uid")
	case out.At.IsZero():
		return out, errors.New("no lastTime")
	case u.Outcome == outcomeDone:
		out.Done = true
		return out, nil
	}
	kind, ok := named(outcomes, u.Outcome)
	if !ok {
		return out, fmt.Errorf("unknown outcome %.40q", u.Outcome)
	}
	if u.NextTime != nil {
		out.Next = u.NextTime.UTC()
	}
	out.Failed = &ledger.FailedState{
		Refusal: decision.Refusal{Kind: kind, Text: u.Message}, Transient: int(u.TransientFailures), Ready: int(u.ReadyPods),
		Lost: fromMicro(u.LastUnanswered), LostSince: fromMicro(u.UnansweredSince), Failing: fromMicro(u.FailingSince), OverQuota: over, OverQuotaAt: fromMicro(u.OverQuotaTime), OverQuotaTotal: total,
	}
	return out, nil
}

func loadSizes(sizes []v1alpha1.RequestedSize) ([]policy.Fitted, error) {
	var out []policy.Fitted
	for i := range sizes[:min(len(sizes), v1alpha1.MaxRequestedSizes)] {
		s := &sizes[i]
		requests, err := loadAmounts(s.Requests)
		limits, limitsErr := loadAmounts(s.Limits)
		if err := errors.Join(err, limitsErr); err != nil {
			return nil, fmt.Errorf("container %.63q: %w", s.Container, err)
		}
		out = append(out, policy.Fitted{Container: s.Container, Requests: requests, Limits: limits, Inserted: s.Inserted})
	}
	return out, nil
}

func loadTotal(t *v1alpha1.RequestedTotal) (cluster.PodResources, error) {
	if t == nil {
		return cluster.PodResources{}, nil
	}
	requests, err := loadAmounts(t.Requests)
	limits, limitsErr := loadAmounts(t.Limits)
	return cluster.PodResources{Requests: requests, Limits: limits}, errors.Join(err, limitsErr)
}

func loadAmounts(a *v1alpha1.RequestedAmounts) (cluster.Resources, error) {
	var out cluster.Resources
	if a == nil {
		return out, nil
	}
	if a.CPU != nil {
		out = out.Set(cluster.CPU, a.CPU.MilliValue())
	}
	if a.Memory != nil {
		out = out.Set(cluster.Memory, a.Memory.Value())
	}
	if out.CPU < 0 || out.Memory < 0 {
		return cluster.Resources{}, errors.New("an amount is negative")
	}
	return out, nil
}

// updateStateSum returns a checksum of a status, without the time and the writer.
func updateStateSum(s v1alpha1.UpdateStateStatus) uint64 {
	s.Updated, s.Writer = nil, ""
	raw, err := json.Marshal(s)
	if err != nil {
		return 0
	}
	sum := fnv.New64a()
	_, _ = sum.Write(raw)
	return sum.Sum64()
}
