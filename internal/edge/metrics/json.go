// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"fmt"
	"time"
)

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
					CPU    *text `json:"cpu"`
					Memory *text `json:"memory"`
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
				container{name: []byte(c.Name), cpu: c.Usage.CPU.bytes(), memory: c.Usage.Memory.bytes()})
		}
	}
	return nil
}

// A text is a quantity as it is written in JSON, as a string or a number.
type text []byte

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	err := json.Unmarshal(b, &s)
	if err == nil {
		*t = text(s)
		return nil
	}
	*t = append((*t)[:0], b...)
	return nil
}

// bytes returns the quantity, nil if the field is absent.
func (t *text) bytes() []byte {
	if t == nil {
		return nil
	}
	if *t == nil {
		return []byte{}
	}
	return *t
}
