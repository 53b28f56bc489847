// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// historyTooLarge is the size of an object, in bytes of JSON, above which its status is ignored. Objects within the bounds of the
// CRD are smaller.
const historyTooLarge = 640 << 10

// A storedObject is an object whose raw parts are decoded separately, so that an invalid part affects only itself.
type storedObject[Spec any] struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     Spec              `json:"spec"`
	Status   json.RawMessage   `json:"status"`

	size int // bytes of JSON if the object is too large; then there is no status
}

// decode decodes an object. It drops the status of an object of more than most bytes.
func (o *storedObject[Spec]) decode(raw []byte, most int) error {
	if err := json.Unmarshal(raw, o); err != nil {
		return err
	}
	if len(raw) > most {
		o.Status = nil
		o.size = len(raw)
	}
	return nil
}

func (o *storedObject[Spec]) meta() *metav1.ObjectMeta { return &o.Metadata }

func (o *storedObject[Spec]) at() storedAt {
	return storedAt{name: o.Metadata.Name, version: o.Metadata.ResourceVersion}
}

// A targetObject is an object whose spec.target names a workload.
type targetObject struct{ storedObject[json.RawMessage] }

// key returns that workload.
func (o *targetObject) key() (cluster.Workload, error) {
	var s struct{ Target v1alpha1.WorkloadReference }
	if err := json.Unmarshal(o.Spec, &s); err != nil {
		return cluster.Workload{}, fmt.Errorf("decode spec: %w", err)
	}
	if s.Target.Kind == "" || s.Target.Name == "" {
		return cluster.Workload{}, errors.New("spec.target has no kind or no name")
	}
	return cluster.Workload{Group: s.Target.Group, Kind: s.Target.Kind, Namespace: o.Metadata.Namespace, Name: s.Target.Name}, nil
}

// checkAnswer returns an error if the metadata of an answer with status 200 lack what each stored object has: a name and a version. A write
// may have been carried out.
func checkAnswer(m *metav1.ObjectMeta) error {
	if m.Name == "" || m.ResourceVersion == "" {
		return errors.New("the answer is not the requested object; a proxy may have sent it")
	}
	return nil
}

type historyObject struct{ targetObject }

// mostRecent returns the histories that one object has room for, in their order, and the number of dropped ones. It drops those
// with the oldest samples.
func mostRecent(hs []usage.History) ([]usage.History, int) {
	left := len(hs) - v1alpha1.MaxContainerHistories
	if left <= 0 {
		return hs, 0
	}
	byAge := slices.SortedFunc(slices.Values(hs), func(x, y usage.History) int {
		return cmp.Or(x.LastSample.Compare(y.LastSample), strings.Compare(x.Container, y.Container))
	})
	oldest := make(map[string]bool, left)
	for i := range byAge[:left] {
		oldest[byAge[i].Container] = true
	}
	return slices.DeleteFunc(slices.Clone(hs), func(h usage.History) bool { return oldest[h.Container] }), left
}

// histories returns the stored histories. If a container has two, the newer one is used.
func (o *historyObject) histories() ([]usage.History, error) {
	if o.size > 0 {
		return nil, fmt.Errorf("usage history %[1]s/%[2]s is too large: %[3]d bytes, and at most %[4]d are read. "+
			"Install podfit's current CRDs, which bound its size, and delete it: kubectl delete usagehistory -n %[1]s %[2]s",
			o.Metadata.Namespace, o.Metadata.Name, o.size, historyTooLarge)
	}
	var status struct {
		Histories json.RawMessage `json:"histories"`
	}
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &status); err != nil {
			return nil, fmt.Errorf("decode status of usage history %s/%s: %w", o.Metadata.Namespace, o.Metadata.Name, err)
		}
	}
	var hs []usage.History
	errs := items("histories", status.Histories, v1alpha1.MaxContainerHistories, func(raw json.RawMessage) error {
		h, err := decodeHistory(raw)
		if err == nil {
			hs = newest(hs, h)
		}
		return err
	})
	if len(errs) > 0 {
		return hs, fmt.Errorf("decode usage history %s/%s: %w", o.Metadata.Namespace, o.Metadata.Name, errors.Join(errs...))
	}
	return hs, nil
}

func decodeHistory(raw json.RawMessage) (usage.History, error) {
	var h v1alpha1.ContainerHistory
	if err := json.Unmarshal(raw, &h); err != nil {
		return usage.History{}, err
	}
	out := usage.History{Container: h.Container, Form: h.Format, Updated: h.Updated.UTC(), Data: h.Data}
	if h.LastSample != nil {
		out.LastSample = valid(h.LastSample.Time)
	}
	if h.Container == "" {
		return out, errors.New("it names no container")
	}
	return out, nil
}

// newest adds a history to those of a workload, or replaces or leaves that of the same container, whichever is newer.
func newest(hs []usage.History, h usage.History) []usage.History {
	known := cluster.FindOrAdd(&hs, func(x *usage.History) bool { return x.Container == h.Container }, h)
	if h.Newer(known) {
		*known = h
	}
	return hs
}

func historyStatus(hs []usage.History) v1alpha1.UsageHistoryStatus {
	s := v1alpha1.UsageHistoryStatus{Containers: int32(len(hs))}
	for i := range hs[:min(len(hs), v1alpha1.MaxContainerHistories)] {
		h := &hs[i]
		s.Histories = append(s.Histories, v1alpha1.ContainerHistory{Container: h.Container, Format: h.Form, Updated: metav1.NewTime(h.Updated), Data: h.Data})
		c := &s.Histories[i]
		if !h.LastSample.IsZero() {
			c.LastSample = new(metav1.NewTime(h.LastSample.Truncate(time.Second)))
		}
		s.Size += int32(len(c.Data))
		if s.Updated == nil || s.Updated.Before(&c.Updated) {
			s.Updated = &c.Updated
		}
	}
	return s
}

// historySum returns a checksum of the stored fields of a workload, by which a change is detected. It omits times that change
// without other changes.
func historySum(hs []usage.History) uint64 {
	sum := fnv.New64a()
	part := func(b []byte) {
		_, _ = fmt.Fprintf(sum, "%d ", len(b))
		_, _ = sum.Write(b)
	}
	for i := range hs {
		part([]byte(hs[i].Container))
		part([]byte(hs[i].Form))
		part(hs[i].Data)
	}
	return sum.Sum64()
}

// historyName is the name of a workload's history: "deployment-web". A hash is appended where the name would be too
// long, or where a kind of another group could have the same. There is one kind of a built-in controller and of Pod.
func historyName(w cluster.Workload) string {
	name := strings.ToLower(w.Kind) + "-" + w.Name
	if group, ok := cluster.BuiltinKinds[w.Kind]; (ok || w.Kind == "Pod") && group == w.Group && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return hashedHistoryName(w)
}

// hashedHistoryName is the name of a workload's history when the first is taken, or no name.
func hashedHistoryName(w cluster.Workload) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(w.Kind+"-"+w.Name))
	of := w.Group + "/" + w.Kind + "/" + w.Name
	if name := withHash(strings.TrimLeft(clean, "-."), of); len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return withHash("history", of) // such as of a name with two dots in a row
}
