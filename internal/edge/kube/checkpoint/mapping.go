// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
)

// A mapping converts records between stored objects and the core: to the stored form while storing, and from it otherwise. One method
// describes a record for both directions.
type mapping struct {
	storing   bool
	namespace string                     // of the object that is loaded
	parts     map[string]json.RawMessage // of the status that is loaded: they are decoded separately, so that an invalid one affects only itself
	err       error                      // the first error of the record that is loaded
	errs      []error                    // of the parts that cannot be decoded
}

// intact are the parts that are left out if one of their fields cannot be decoded.
var intact = map[string]bool{"capacity": true, "canary": true}

// part converts a part of a status. It loads the part without the fields that cannot be decoded.
func part[Stored, Own any](m *mapping, name string, stored *Stored, own *Own, convert func(*mapping, *Stored, *Own)) {
	if m.storing {
		convert(m, stored, own)
		return
	}
	raw := m.parts[name]
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	m.err = json.Unmarshal(raw, stored)
	if decoded := m.ends(name); !decoded && intact[name] {
		return
	}
	var value Own
	convert(m, stored, &value)
	if m.ends(name) {
		*own = value
	}
}

func record[Stored, Own any](m *mapping, name string, stored **Stored, own **Own, convert func(*mapping, *Stored, *Own)) {
	part(m, name, stored, own, func(m *mapping, stored **Stored, own **Own) { optional(m, stored, own, convert) })
}

// list converts a part that is a list of records. It loads the records that can be decoded, and at most a maximum number.
func list[Stored, Own any](m *mapping, name string, most int, stored *[]Stored, own *[]Own, convert func(*mapping, *Stored, *Own)) {
	if m.storing {
		each(m, most, stored, own, convert)
		return
	}
	var items []json.RawMessage
	if raw := m.parts[name]; len(raw) > 0 {
		m.err = json.Unmarshal(raw, &items)
		m.ends(name)
	}
	if len(items) > most {
		m.errs = append(m.errs, fmt.Errorf("%s has %d entries; the first %d are read", name, len(items), most))
		items = items[:most]
	}
	for i, raw := range items {
		var item Stored
		var value Own
		m.err = json.Unmarshal(raw, &item)
		if m.err == nil {
			convert(m, &item, &value)
		}
		if m.err == nil {
			*own = append(*own, value)
			continue
		}
		m.ends(fmt.Sprintf("%s[%d]", name, i))
	}
}

// each converts a list within a record, at most a maximum number of items.
func each[Stored, Own any](m *mapping, most int, stored *[]Stored, own *[]Own, convert func(*mapping, *Stored, *Own)) {
	n := min(max(len(*stored), len(*own)), most) // one of the two lists is empty
	switch {
	case n == 0:
	case m.storing:
		*stored = make([]Stored, n)
	default:
		*own = make([]Own, n)
	}
	for i := range n {
		convert(m, &(*stored)[i], &(*own)[i])
	}
}

// optional converts a record that may be nil.
func optional[Stored, Own any](m *mapping, stored **Stored, own **Own, convert func(*mapping, *Stored, *Own)) {
	switch {
	case m.storing && *own != nil:
		*stored = new(Stored)
	case !m.storing && *stored != nil:
		*own = new(Own)
	default:
		return
	}
	convert(m, *stored, *own)
}

// Errors of records that are loaded.
var (
	errEmpty      = errors.New("the record has no content") // it is left out without a message
	errNegative   = errors.New("an amount is negative")
	errNoUID      = errors.New("no uid")
	errNoSince    = errors.New("no since")
	errNoLastTime = errors.New("no lastTime")
	errNoName     = errors.New("it names no container")
)

// need records an error of a record that is loaded, unless a condition holds.
func (m *mapping) need(condition bool, err error) {
	if !m.storing && !condition && m.err == nil {
		m.err = err
	}
}

// ends ends a part or record that is loaded. It reports whether there was no error, and keeps the error with a name.
func (m *mapping) ends(name string) bool {
	err := m.err
	m.err = nil
	if err != nil && !errors.Is(err, errEmpty) {
		m.errs = append(m.errs, fmt.Errorf("decode %s: %w", name, err))
	}
	return err == nil
}

// same converts a value of the same type.
func same[T any](m *mapping, stored, own *T) {
	if m.storing {
		*stored = *own
	} else {
		*own = *stored
	}
}

// name converts a value that is stored as a name. An unknown name is an error; what describes the value.
func name[K comparable](m *mapping, what string, names map[K]string, stored *string, own *K) {
	if m.storing {
		*stored = names[*own]
		return
	}
	value, known := named(names, *stored)
	if !known {
		m.need(false, fmt.Errorf("unknown %s %.40q", what, *stored))
	}
	*own = value
}

func named[K comparable](names map[K]string, name string) (K, bool) {
	for k, n := range names {
		if n == name {
			return k, true
		}
	}
	var none K
	return none, false
}

func (m *mapping) count(stored *int32, own *int) {
	if m.storing {
		*stored = int32(*own)
	} else {
		*own = int(*stored)
	}
}

// workload converts a workload in the namespace of the object.
func (m *mapping) workload(stored *v1alpha1.WorkloadReference, own *cluster.Workload) {
	if m.storing {
		*stored = reference(*own)
	} else {
		*own = workloadIn(m.namespace, stored)
	}
}

// time converts a time with microseconds, as the API has it.
func (m *mapping) time(stored *metav1.MicroTime, own *time.Time) {
	at := stored
	m.micro(&at, own)
	*stored = *at
}

// micro converts a time with microseconds that is nil if it is zero.
func (m *mapping) micro(stored **metav1.MicroTime, own *time.Time) {
	switch {
	case m.storing && !own.IsZero():
		*stored = new(metav1.NewMicroTime(*own))
	case !m.storing && *stored != nil:
		*own = valid((*stored).Time)
	}
}

// seconds converts a time with seconds that is nil if it is zero.
func (m *mapping) seconds(stored **metav1.Time, own *time.Time) {
	switch {
	case m.storing && !own.IsZero():
		*stored = new(metav1.NewTime(own.Truncate(time.Second)))
	case !m.storing && *stored != nil:
		*own = valid((*stored).Time)
	}
}

// second converts a time with seconds that need not be valid.
func (m *mapping) second(stored *metav1.Time, own *time.Time) {
	if m.storing {
		*stored = metav1.NewTime(*own)
	} else {
		*own = kube.Utc(*stored)
	}
}

// valid returns a time of the API in UTC, or the zero time if it cannot be written again.
func valid(t time.Time) time.Time {
	if t.IsZero() || !kube.HasJSONForm(t) {
		return time.Time{}
	}
	return t.UTC()
}

// amounts converts amounts of resources that are nil if there are none.
func (m *mapping) amounts(stored **v1alpha1.RequestedAmounts, own *cluster.Resources) {
	switch {
	case m.storing && !own.Has.Empty():
		*stored = new(v1alpha1.RequestedAmounts)
		if cpu, ok := own.Get(cluster.CPU); ok {
			(*stored).CPU = resource.NewMilliQuantity(cpu, resource.DecimalSI)
		}
		if memory, ok := own.Get(cluster.Memory); ok {
			(*stored).Memory = resource.NewQuantity(memory, resource.BinarySI)
		}
	case !m.storing && *stored != nil:
		if cpu := (*stored).CPU; cpu != nil {
			*own = own.Set(cluster.CPU, cpu.MilliValue())
		}
		if memory := (*stored).Memory; memory != nil {
			*own = own.Set(cluster.Memory, memory.Value())
		}
		m.need(own.CPU >= 0 && own.Memory >= 0, errNegative)
	}
}
