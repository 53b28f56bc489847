// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// A board is a Grafana dashboard.
type board struct {
	name, title, description string
	variables                []variable
	rows                     []row
}

// A variable is a list of values of a label, from which the reader selects.
type variable struct{ name, query string }

type row struct {
	title  string
	panels []panel
}

// A panel shows queries over time, or their last values if it is a stat.
type panel struct {
	title, description string
	stat               bool
	unit               string // of Grafana
	queries            []query
}

type query struct{ expr, legend string }

// The grid of Grafana has 24 columns.
const (
	columns     = 24
	statWidth   = 4
	statHeight  = 4
	graphWidth  = 8
	graphHeight = 8
)

// object is a JSON object.
type object = map[string]any

var datasource = object{"type": "prometheus", "uid": "${datasource}"}

// json returns the board in Grafana's format.
func (b board) json() object {
	id, y := 0, 0
	var panels []object
	for _, r := range b.rows {
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []object{}, "gridPos": at(0, y, columns, 1)})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			id++
			w, h := graphWidth, graphHeight
			if p.stat {
				w, h = statWidth, statHeight
			}
			if x+w > columns {
				x, y, height = 0, y+height, 0
			}
			panels = append(panels, p.json(id, at(x, y, w, h)))
			x, height = x+w, max(height, h)
		}
		y += height
	}
	return object{
		"uid": "podfit-" + b.name, "title": "podfit / " + b.title, "description": b.description, "tags": []string{"podfit"},
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "timezone": "browser", "refresh": "1m",
		"time":        object{"from": "now-6h", "to": "now"},
		"templating":  object{"list": b.templating()},
		"annotations": object{"list": []object{}},
		"links": []object{{
			"type": "dashboards", "tags": []string{"podfit"}, "title": "podfit", "asDropdown": true, "includeVars": false, "keepTime": true,
		}},
		"panels": panels,
	}
}

func at(x, y, w, h int) object { return object{"x": x, "y": y, "w": w, "h": h} }

func (b board) templating() []object {
	out := []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}}
	for _, v := range b.variables {
		out = append(out, object{
			"name": v.name, "label": strings.ToUpper(v.name[:1]) + v.name[1:], "type": "query", "datasource": datasource, "query": v.query,
			"refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*", "hide": 0, "current": object{"text": "All", "value": "$__all"},
		})
	}
	return out
}

func (p panel) json(id int, position object) object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": datasource, "expr": q.expr, "legendFormat": q.legend, "instant": p.stat, "range": !p.stat,
		})
	}
	out := object{
		"id": id, "title": p.title, "description": p.description, "type": "timeseries", "datasource": datasource, "gridPos": position, "targets": targets,
		"fieldConfig": object{"defaults": object{"unit": p.unit, "custom": object{"fillOpacity": 10, "showPoints": "never"}}, "overrides": []object{}},
		"options":     object{"legend": object{"displayMode": "table", "placement": "bottom", "calcs": []string{"lastNotNull", "max"}}, "tooltip": object{"mode": "multi", "sort": "desc"}},
	}
	if p.stat {
		out["type"] = "stat"
		out["fieldConfig"] = object{"defaults": object{"unit": p.unit, "noValue": "none"}, "overrides": []object{}}
		out["options"] = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "none", "graphMode": "none", "textMode": "auto"}
	}
	return out
}
