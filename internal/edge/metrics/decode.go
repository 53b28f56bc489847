// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

// A reading collects the samples of one response.
type reading struct {
	samples    []usage.Sample
	unreadable int
	names      map[string]string // interned names of namespaces and containers, which repeat
}

// decode returns the samples of a PodMetricsList in protobuf or JSON, and the number of containers that cannot be parsed.
func decode(raw []byte) ([]usage.Sample, int, error) {
	r := &reading{names: make(map[string]string)}
	body, isProtobuf := bytes.CutPrefix(raw, protobufMagic)
	var err error
	if isProtobuf {
		err = r.envelope(body)
	} else {
		err = r.json(raw)
	}
	return r.samples, r.unreadable, err
}

type container struct {
	name, cpu, memory []byte // quantities; nil if the response does not have them
}

// add adds the sample of a container if it can be parsed. podName caches the converted name for all containers of a pod.
func (r *reading) add(namespace, pod []byte, podName *string, at time.Time, c container) {
	if len(pod) == 0 || len(c.name) == 0 || at.IsZero() {
		r.unreadable++
		return
	}
	s := usage.Sample{At: at}
	for _, res := range cluster.All {
		text := cluster.Pick(res, c.cpu, c.memory)
		if text == nil {
			continue
		}
		q, err := resource.ParseQuantity(string(text))
		if err != nil {
			r.unreadable++
			return
		}
		set(&s, res, &q)
	}
	if s.Has.Empty() {
		return
	}
	if *podName == "" {
		*podName = string(pod)
	}
	s.Pod = cluster.Key{Namespace: r.name(namespace), Name: *podName}
	s.Container = r.name(c.name)
	r.samples = append(r.samples, s)
}

func (r *reading) name(b []byte) string {
	if s, ok := r.names[string(b)]; ok {
		return s
	}
	s := string(b)
	r.names[s] = s
	return s
}

// json decodes a PodMetricsList in JSON. Invalid items are counted and skipped.
func (r *reading) json(raw []byte) error {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("decode list: %w", err)
	}
	for _, item := range list.Items {
		var pod struct {
			Metadata   struct{ Namespace, Name string } `json:"metadata"`
			Timestamp  time.Time                        `json:"timestamp"`
			Containers []struct {
				Name  string `json:"name"`
				Usage struct {
					CPU    json.RawMessage `json:"cpu"`
					Memory json.RawMessage `json:"memory"`
				} `json:"usage"`
			} `json:"containers"`
		}
		if json.Unmarshal(item, &pod) != nil {
			r.unreadable++
			continue
		}
		var podName string
		for i := range pod.Containers {
			c := &pod.Containers[i]
			r.add([]byte(pod.Metadata.Namespace), []byte(pod.Metadata.Name), &podName, pod.Timestamp.UTC(),
				container{name: []byte(c.Name), cpu: amount(c.Usage.CPU), memory: amount(c.Usage.Memory)})
		}
	}
	return nil
}

// amount returns a quantity as it is written, as a string or a number; nil if the field is absent.
func amount(raw json.RawMessage) []byte {
	var s *string
	if json.Unmarshal(raw, &s) != nil { // a number, or absent
		return raw
	}
	if s == nil { // null
		return nil
	}
	return []byte(*s)
}
