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
