// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/rollout"
	"podfit.dev/podfit/internal/edge/kube"
)

// A record is a struct of the core whose fields have a tag "stored": the name of the field in the stored object, and options.
//
//	stored:"name"            the field is left out if it is zero
//	stored:"name,required"   it is always stored, and a record without it is invalid
//	stored:"name,max=30"     a list: the first 30 items are stored and read
//	stored:"name,last=30"    a list: the last 30 items are stored, and at most 30 are read
//	stored:"name,seconds"    a time without fractions of a second; other times have microseconds
//	stored:"name,bytes"      a number that is stored as an amount of memory
//	stored:"name,outer"      it is not stored in a record that is part of a record of the same type
//	stored:"name=value"      a pointer to a record: if it is nil, the field has this value; otherwise, its fields belong to the outer record
//
// Other fields are not stored, apart from those of embedded structs. Times are in UTC, amounts are quantities, and workloads and objects have
// no namespace: it is always that of the stored object, because a user of that namespace may have changed the object.

// names are the stored names of values that are numbers in the core. They are never changed.
var names = map[any]string{
	decision.Resize: "Resize", decision.Evict: "Evict", decision.Delete: "Delete", decision.Surge: "Surge",

	decision.Denied: "Denied", decision.DeniedByBudget: "DisruptionBudget", decision.DeniedByNode: "NodeCapacity", decision.DeniedByQuota: "Quota",
	decision.Unsupported: "Unsupported", decision.WebhookFailed: "WebhookFailed", decision.ServerBusy: "ServerBusy", decision.NotReached: "NotReached",
	decision.OutcomeIsUnknown: "NoAnswer", decision.NotReadyInTime: "NotReadyInTime",

	rollout.Idle: "Idle", rollout.Starting: "Starting", rollout.Watching: "Watching", rollout.Accepted: "Accepted", rollout.Held: "Held",

	rollout.NoCause: "", rollout.OOMKilled: "OOMKilled", rollout.Restarted: "Restarted", rollout.NotReady: "NotReady", rollout.Throttled: "Throttled",

	rollout.NotYetCompared: "", rollout.Compared: "Compared", rollout.NoCPULimit: "NoCPULimit", rollout.NoPrometheus: "NoPrometheus",
	rollout.NoAnswer: "NoAnswer", rollout.NoData: "NoData",
}

// A storedField describes a field of a record.
type storedField struct {
	index                           int
	name                            string
	embedded                        bool
	none                            string // the value of name that stands for a nil pointer; "" if there is none
	most                            int    // items of a list
	last                            bool   // of too many items, the last ones are stored
	required, seconds, bytes, outer bool
}

// layouts are the stored fields of each type of record.
var layouts sync.Map // reflect.Type → []storedField

func fieldsOf(t reflect.Type) []storedField {
	if known, ok := layouts.Load(t); ok {
		return known.([]storedField)
	}
	var fields []storedField
	for i := range t.NumField() {
		tag, stored := t.Field(i).Tag.Lookup("stored")
		if !stored && !t.Field(i).Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		f := storedField{index: i, embedded: !stored}
		f.name, f.none, _ = strings.Cut(name, "=")
		for option := range strings.SplitSeq(options, ",") {
			f.required = f.required || option == "required"
			f.seconds = f.seconds || option == "seconds"
			f.bytes = f.bytes || option == "bytes"
			f.outer = f.outer || option == "outer"
			if key, most, isBound := strings.Cut(option, "="); isBound {
				f.most, _ = strconv.Atoi(most)
				f.last = key == "last"
			}
		}
		fields = append(fields, f)
	}
	layouts.Store(t, fields)
	return fields
}

// encode returns the stored form of a record.
func encode(record any) []byte {
	return appendRecord(nil, reflect.ValueOf(record).Elem(), false)
}

func appendRecord(b []byte, v reflect.Value, inner bool) []byte {
	start := len(b)
	b = appendFields(b, v, inner)
	if len(b) == start {
		b = append(b, '{')
	}
	b[start] = '{' // in place of the first comma
	return append(b, '}')
}

// appendFields adds the fields of a record, each after a comma.
func appendFields(b []byte, v reflect.Value, inner bool) []byte {
	for _, f := range fieldsOf(v.Type()) {
		field := v.Field(f.index)
		switch {
		case f.embedded:
			b = appendFields(b, field, inner)
		case f.outer && inner, !f.required && f.none == "" && field.IsZero():
		case f.none != "" && field.IsNil():
			b = appendJSON(append(b, `,"`+f.name+`":`...), f.none)
		case f.none != "":
			b = appendFields(b, field.Elem(), false)
		default:
			b = f.appendValue(append(b, `,"`+f.name+`":`...), field, v.Type())
		}
	}
	return b
}

// appendValue adds the value of a field of a type of record.
func (f *storedField) appendValue(b []byte, v reflect.Value, outer reflect.Type) []byte {
	switch value := v.Addr().Interface().(type) {
	case *time.Time:
		layout := metav1.RFC3339Micro
		if f.seconds {
			layout = time.RFC3339
		}
		return append(value.UTC().AppendFormat(append(b, '"'), layout), '"')
	case *cluster.Resources:
		return appendJSON(b, kube.Quantities(*value))
	case *cluster.Key:
		return appendJSON(b, value.Name)
	case *int64:
		if f.bytes {
			return appendJSON(b, resource.NewQuantity(*value, resource.BinarySI))
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		return appendRecord(b, v.Elem(), v.Type().Elem() == outer)
	case reflect.Struct:
		return appendRecord(b, v, false)
	case reflect.Slice:
		count := min(v.Len(), f.most)
		first := 0
		if f.last {
			first = v.Len() - count
		}
		b = append(b, '[')
		for i := range count {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendRecord(b, v.Index(first+i), false)
		}
		return append(b, ']')
	case reflect.Uint8:
		return appendJSON(b, names[v.Interface()])
	default:
		return appendJSON(b, v.Interface())
	}
}

func appendJSON(b []byte, value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil { // not for the types of a record
		return append(b, "null"...)
	}
	return append(b, raw...)
}

// longestText is the maximum size of a text in a record, in bytes. The longest are answers of the API server, of about 300 bytes.
const longestText = 512

// A decoder loads records from an object of a namespace.
type decoder struct{ namespace string }

// state decodes the parts of a status into a record. It leaves out the parts, and items of lists, that are invalid, and returns their errors.
func (d decoder) state(raw json.RawMessage, record any) (errs []error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return []error{fmt.Errorf("decode status: %w", err)}
	}
	v := reflect.ValueOf(record).Elem()
	for _, f := range fieldsOf(v.Type()) {
		part := v.Field(f.index)
		if isAbsent(members[f.name]) {
			continue
		}
		if part.Kind() == reflect.Slice {
			errs = append(errs, items(f.name, members[f.name], f.most, func(raw json.RawMessage) error {
				item := reflect.New(part.Type().Elem()).Elem()
				err := d.record(item, raw, false)
				if err == nil {
					part.Set(reflect.Append(part, item))
				}
				return err
			})...)
			continue
		}
		value := reflect.New(part.Type()).Elem()
		if err := d.value(&f, value, members[f.name], v.Type()); err != nil {
			errs = append(errs, fmt.Errorf("decode %s: %w", f.name, err))
			continue
		}
		part.Set(value)
	}
	return errs
}

// items decodes the items of a list, at most a maximum number. An invalid item affects only itself.
func items(name string, raw json.RawMessage, most int, decode func(json.RawMessage) error) (errs []error) {
	if isAbsent(raw) {
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return []error{fmt.Errorf("decode %s: %w", name, err)}
	}
	if len(list) > most {
		errs = append(errs, fmt.Errorf("%s has %d entries; the first %d are read", name, len(list), most))
		list = list[:most]
	}
	for i, item := range list {
		if err := decode(item); err != nil {
			errs = append(errs, fmt.Errorf("decode %s[%d]: %w", name, i, err))
		}
	}
	return errs
}

func isAbsent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func (d decoder) record(v reflect.Value, raw json.RawMessage, inner bool) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	return d.fields(v, members, inner)
}

// fields decodes the fields of a record, up to the first invalid one.
func (d decoder) fields(v reflect.Value, members map[string]json.RawMessage, inner bool) error {
	for _, f := range fieldsOf(v.Type()) {
		field := v.Field(f.index)
		raw := members[f.name]
		var err error
		switch {
		case f.embedded:
			err = d.fields(field, members, inner)
		case f.none != "" && string(raw) == strconv.Quote(f.none), f.outer && inner:
		case f.none != "":
			field.Set(reflect.New(field.Type().Elem()))
			err = d.fields(field.Elem(), members, false)
		default:
			err = d.member(&f, field, raw, v.Type())
		}
		if err != nil {
			return err
		}
	}
	if w, ok := v.Addr().Interface().(*cluster.Workload); ok {
		w.Namespace = d.namespace
	}
	return nil
}

// member decodes a field of a type of record. The zero value of an enumeration has a name, others are no values of required fields.
func (d decoder) member(f *storedField, v reflect.Value, raw json.RawMessage, outer reflect.Type) error {
	absent := isAbsent(raw)
	var err error
	if !absent {
		err = d.value(f, v, raw, outer)
	}
	if err == nil && f.required && (absent || v.IsZero() && v.Kind() != reflect.Uint8) {
		err = errors.New("the value is missing")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

func (d decoder) value(f *storedField, v reflect.Value, raw json.RawMessage, outer reflect.Type) error {
	switch value := v.Addr().Interface().(type) {
	case *time.Time:
		err := json.Unmarshal(raw, value)
		*value = valid(*value)
		return err
	case *cluster.Resources:
		return decodeAmounts(value, raw)
	case *cluster.Key:
		name, err := text(raw)
		if name != "" {
			*value = cluster.Key{Namespace: d.namespace, Name: name}
		}
		return err
	case *int64:
		var stored resource.Quantity
		err := json.Unmarshal(raw, &stored)
		*value = stored.Value()
		return cmp.Or(err, notNegative(*value))
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.record(v.Elem(), raw, v.Type().Elem() == outer)
	case reflect.Struct:
		return d.record(v, raw, false)
	case reflect.Slice:
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil || len(list) == 0 {
			return err
		}
		n := min(len(list), f.most)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			if err := d.record(v.Index(i), list[i], false); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return nil
	case reflect.Uint8:
		return decodeName(v, raw)
	case reflect.Int, reflect.Int32:
		var count int32
		err := json.Unmarshal(raw, &count)
		v.SetInt(int64(count))
		return cmp.Or(err, notNegative(int64(count)))
	case reflect.String:
		stored, err := text(raw)
		v.SetString(stored)
		return err
	default:
		return json.Unmarshal(raw, v.Addr().Interface())
	}
}

func decodeAmounts(own *cluster.Resources, raw json.RawMessage) error {
	var stored struct{ CPU, Memory *resource.Quantity }
	if err := json.Unmarshal(raw, &stored); err != nil {
		return err
	}
	if stored.CPU != nil {
		*own = own.Set(cluster.CPU, stored.CPU.MilliValue())
	}
	if stored.Memory != nil {
		*own = own.Set(cluster.Memory, stored.Memory.Value())
	}
	return cmp.Or(notNegative(own.CPU), notNegative(own.Memory))
}

// decodeName decodes a value with a name. An unknown result of a comparison counts as none.
func decodeName(v reflect.Value, raw json.RawMessage) error {
	stored, err := text(raw)
	if err != nil {
		return err
	}
	for value, name := range names {
		if name == stored && reflect.TypeOf(value) == v.Type() {
			v.Set(reflect.ValueOf(value))
			return nil
		}
	}
	if v.Type() == reflect.TypeFor[rollout.Comparison]() {
		return nil
	}
	return fmt.Errorf("unknown value %.40q", stored)
}

func notNegative(n int64) error {
	if n < 0 {
		return errors.New("the value is negative")
	}
	return nil
}

func text(raw json.RawMessage) (string, error) {
	var s string
	err := json.Unmarshal(raw, &s)
	if err == nil && len(s) > longestText {
		return "", fmt.Errorf("the value has more than %d bytes", longestText)
	}
	return s, err
}

// valid returns a time of the API in UTC, or the zero time if it cannot be written again.
func valid(t time.Time) time.Time {
	if !kube.HasJSONForm(t) {
		return time.Time{}
	}
	return t.UTC()
}
