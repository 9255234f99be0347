{{- define "warmline.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 48 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 48 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "warmline.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "warmline.labels" -}}
{{ include "warmline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "warmline.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "warmline.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "warmline.secret" -}}
{{- .Values.auth.existingSecret | default (include "warmline.name" .) }}
{{- end }}

{{- define "warmline.servers" -}}
{{- if eq .Values.architecture "standalone" }}1{{ else }}{{ .Values.servers }}{{ end }}
{{- end }}

{{/* The domain below which pods have names. */}}
{{- define "warmline.domain" -}}
{{ include "warmline.name" . }}-headless.{{ .Release.Namespace }}.svc
{{- end }}

{{/* Mistakes that a template can see. */}}
{{- define "warmline.check" -}}
{{- if not (has .Values.architecture (list "standalone" "replicas" "sentinel")) }}{{ fail "architecture must be standalone, replicas or sentinel" }}{{ end }}
{{- if and (ne .Values.architecture "standalone") (lt (int .Values.servers) 2) }}{{ fail "servers must be 2 or more: a primary and a replica" }}{{ end }}
{{- if and (eq .Values.architecture "sentinel") (or (lt (int .Values.servers) 3) (gt (int .Values.sentinel.quorum) (int .Values.servers))) }}{{ fail "sentinel needs 3 servers or more, and a quorum of at most as many" }}{{ end }}
{{- if and (ne .Values.architecture "standalone") (not .Values.persistence.enabled) }}{{ fail "replicas need persistence.enabled: a primary that restarts without data empties them" }}{{ end }}
{{- if and .Values.tls.enabled (not .Values.tls.existingSecret) }}{{ fail "tls.existingSecret must name a secret with tls.crt, tls.key and ca.crt" }}{{ end }}
{{- if and .Values.http.tls (not .Values.tls.enabled) }}{{ fail "http.tls needs tls.enabled" }}{{ end }}
{{- if and .Values.http.tls (eq (toString .Values.tls.authClients) "yes") }}{{ fail "http.tls needs tls.authClients no or optional: the kubelet has no certificate to show" }}{{ end }}
{{- if not (has .Values.antiAffinity (list "soft" "hard" "none")) }}{{ fail "antiAffinity must be soft, hard or none" }}{{ end }}
{{- if not (regexMatch "^[A-Za-z0-9_-]*$" .Values.auth.password) }}{{ fail "auth.password must be of letters, digits, - and _" }}{{ end }}
{{- end }}

{{- define "warmline.passwordEnvironment" -}}
{{- if .Values.auth.enabled }}
- name: PASSWORD
  valueFrom: {secretKeyRef: {name: {{ include "warmline.secret" . }}, key: password}}
{{- end }}
{{- end }}

{{- define "warmline.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "warmline.mounts" -}}
- {name: data, mountPath: /data}
- {name: temporary, mountPath: /tmp}
- {name: configuration, mountPath: /etc/warmline, readOnly: true}
{{- if .Values.tls.enabled }}
- {name: tls, mountPath: /tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "warmline.affinity" -}}
{{- if or (eq .Values.antiAffinity "none") (eq .Values.architecture "standalone") }}
{{- with .Values.affinity }}{{ toYaml . }}{{ end }}
{{- else }}
{{- with omit .Values.affinity "podAntiAffinity" }}{{ toYaml . }}{{ end }}
podAntiAffinity:
  {{- if eq .Values.antiAffinity "hard" }}
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: {{ .Values.topologyKey }}
      labelSelector:
        matchLabels: {{- include "warmline.selector" . | nindent 10 }}
  {{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: {{ .Values.topologyKey }}
        labelSelector:
          matchLabels: {{- include "warmline.selector" . | nindent 12 }}
  {{- end }}
{{- end }}
{{- end }}
