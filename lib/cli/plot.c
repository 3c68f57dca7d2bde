/* SPDX-License-Identifier: MIT */
#include "cli/plot.h"

#include <assert.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/plot_axis.h"
#include "common/out.h"

/* Okabe-Ito: told apart with any colour vision, and in grey. */
enum { COLOURS = 8 };
static const char *const colour[COLOURS] = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#000000",
};

enum { KEY_LINE = 18, TICKS_MAX = 12, THIN_TICKS_MAX = 4, NAMES_MAX = 24, LARGE = 100000 };
enum { PANEL_WIDTH = 800, PANEL_HEIGHT = 400, PANELS_HEIGHT = 300, THIN_HEIGHT = 70 };

/* Writes the `set terminal` command for a path and a height in pixels; "" for an unknown suffix.
 * The terminal for text is set later. */
static const char *terminal_for(const char *path, int height, char text[64])
{
    const char *dot = strrchr(path, '.');

    text[0] = '\0';
    if (!strcmp(path, "-"))
        snprintf(text, 64, "dumb 80,20 noenhanced");
    else if (dot && (!strcmp(dot, ".svg") || !strcmp(dot, ".gp")))
        snprintf(text, 64, "svg size %d,%d dynamic noenhanced background 'white'", PANEL_WIDTH,
                 height);
    else if (dot && !strcmp(dot, ".png"))
        snprintf(text, 64, "pngcairo size %d,%d noenhanced", 2 * PANEL_WIDTH, 2 * height);
    else if (dot && !strcmp(dot, ".pdf"))
        snprintf(text, 64, "pdfcairo size 16cm,%dcm noenhanced", height / 50);
    return text;
}

/* Single quotes, since in double quotes gnuplot runs commands between backquotes. */
static void put_quoted(FILE *out, const char *text)
{
    putc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            putc('\'', out);
        putc((unsigned char)*text < 0x20 ? ' ' : *text, out);
    }
    putc('\'', out);
}

static void put_setting(FILE *out, const char *name, const char *text)
{
    fprintf(out, "set %s ", name);
    put_quoted(out, text);
    putc('\n', out);
}

/* A trace of one series without zone and type calls it "-". */
static const char *name_of(const struct spot_series *s)
{
    return strcmp(s->label, "-") != 0 ? s->label : "";
}

static void put_point(FILE *out, const struct spot_series *s, size_t k)
{
    fprintf(out, "%.12g %.12g", s->x[k], s->y[k]);
    if (s->style == SPOT_SERIES_BAND)
        fprintf(out, " %.12g", s->y2[k]);
    putc('\n', out);
}

/* True if the sample is finite; otherwise there is a gap in the curve. */
static bool is_point(const struct spot_series *s, size_t k)
{
    return isfinite(s->x[k]) && isfinite(s->y[k]) &&
           (s->style != SPOT_SERIES_BAND || isfinite(s->y2[k]));
}

/* True if a step curve is the same without this point, which makes the file smaller. */
static bool is_within_a_step(const struct spot_series *s, size_t k)
{
    return s->style == SPOT_SERIES_STEP && k && k + 1 < s->n && s->y[k] == s->y[k - 1] &&
           isfinite(s->x[k - 1]) && isfinite(s->x[k]) && isfinite(s->x[k + 1]) &&
           isfinite(s->y[k + 1]);
}

static void put_data(FILE *out, const struct spot_series *s, size_t i)
{
    fprintf(out, "$s%zu << EOD\n", i);
    for (size_t k = 0; k < s->n; k++)
        if (is_within_a_step(s, k))
            continue;
        else if (is_point(s, k))
            put_point(out, s, k);
        else
            putc('\n', out);
    fputs("EOD\n", out);
}

static bool has_points(const struct spot_series *s)
{
    for (size_t k = 0; k < s->n; k++)
        if (is_point(s, k))
            return true;
    return false;
}

/* Writes the data of a series. gnuplot warns of blocks without points, and fails if there are only
 * such. */
static void put_source(FILE *out, const struct spot_series *s, size_t i)
{
    if (has_points(s))
        fprintf(out, "$s%zu", i);
    else
        fputs("1/0", out); /* an undefined point for gnuplot */
}

/* Labels a panel without data. */
static void put_no_data(FILE *out, bool is_empty)
{
    fputs(is_empty ? "set label 9 'no data' at graph 0.5,graph 0.5 center\n" : "", out);
}

static void end_no_data(FILE *out, bool is_empty)
{
    fputs(is_empty ? "unset label 9\n" : "", out);
}

static bool is_empty(const struct spot_figure *fig)
{
    for (size_t i = 0; i < fig->n_series; i++)
        if (has_points(&fig->series[i]))
            return false;
    return true;
}

/* The range of all series of a figure. */
struct extent {
    double low, high;
};

static struct extent extent_of(const struct spot_figure *fig, bool is_x)
{
    struct extent e = { INFINITY, -INFINITY };

    for (size_t i = 0; i < fig->n_series; i++) {
        const struct spot_series *s = &fig->series[i];
        const int n_edge = !is_x && s->style == SPOT_SERIES_BAND ? 2 : 1;

        for (size_t k = 0; k < s->n; k++)
            for (int edge = 0; edge < n_edge; edge++) {
                const double v = (is_x ? s->x : edge ? s->y2 : s->y)[k];

                if (isfinite(v)) {
                    e.low = fmin(e.low, v);
                    e.high = fmax(e.high, v);
                }
            }
    }
    return e;
}

/* Chooses marks for counts and large numbers, for which gnuplot would print fractions or 4e+06.
 * False: other axes are left to gnuplot. */
static bool find_axis(const struct spot_figure *fig, bool is_x, int most, struct spot_axis *axis)
{
    const struct extent e = extent_of(fig, is_x);
    const bool is_count = !is_x && fig->is_count;

    if (!(e.low <= e.high) || (!is_count && fmax(-e.low, e.high) < LARGE))
        return false;
    *axis = spot_axis_over(e.low, e.high, is_count, is_count ? most : most / 2);
    return true;
}

/* Writes names as tick labels, as many as there is room for. */
static void put_names(FILE *out, const char *const *name, size_t n, bool is_x)
{
    const size_t stride = (n + NAMES_MAX - 1) / NAMES_MAX;

    fprintf(out, is_x ? "set xtics nomirror rotate by 45 right (" : "set ytics nomirror (");
    for (size_t i = 0; i < n; i += stride) {
        fputs(i ? ", " : "", out);
        put_quoted(out, name[i]);
        fprintf(out, " %zu", i);
    }
    fprintf(out, ")\nset %crange [-0.5:%zu.5]\n", is_x ? 'x' : 'y', n - 1);
}

/* Sets a range if there is no value or only one, for which gnuplot would warn. */
static bool put_flat_range(FILE *out, char name, const struct extent *e)
{
    const double margin = e->low != 0 ? 0.05 * fabs(e->low) : 1;

    if (e->low < e->high)
        return false;
    if (e->low == e->high)
        fprintf(out, "set %crange [%.12g:%.12g]\n", name, e->low - margin, e->low + margin);
    else
        fprintf(out, "set %crange [0:1]\n", name);
    return true;
}

static bool put_axis(FILE *out, const struct spot_figure *fig, bool is_x, int most)
{
    const char name = is_x ? 'x' : 'y';
    const char *const *const names = is_x ? fig->x_name : fig->y_name;
    const struct extent e = extent_of(fig, is_x);
    char text[SPOT_AXIS_TEXT];
    struct spot_axis a;

    if (names) {
        put_names(out, names, fig->n_name, is_x);
        return true;
    }
    if (!find_axis(fig, is_x, most, &a))
        return put_flat_range(out, name, &e);
    fprintf(out, "set %ctics nomirror (", name);
    for (int i = 0; i <= a.n; i++) {
        const double at = a.low + i * a.step;

        fprintf(out, "%s'%s' %.12g", i ? ", " : "",
                spot_axis_text(at, fmax(-a.low, a.low + a.n * a.step) >= LARGE, text), at);
    }
    fprintf(out, ")\nset %crange [%.12g:%.12g]\n", name, a.low, a.low + a.n * a.step);
    return true;
}

/* Resets the axes, since the next panel has its own. */
static void reset_axes(FILE *out, const bool has[2])
{
    if (has[0])
        fputs("set xtics norotate center autofreq\nset xrange [*:*]\n", out);
    if (has[1])
        fputs("set ytics autofreq\nset yrange [*:*]\n", out);
}

/* True for a mark on the frame, which would hide it in text. */
static bool stands_at(const struct spot_series *s, double x)
{
    for (size_t k = 0; k < s->n; k++)
        if (s->x[k] != x)
            return false;
    return s->n && s->style == SPOT_SERIES_LINE;
}

static double margin_of(const struct spot_figure *fig, const struct extent *x)
{
    for (size_t i = 0; i < fig->n_series; i++)
        if (stands_at(&fig->series[i], x->low) || stands_at(&fig->series[i], x->high))
            return 0.05 * (x->high - x->low);
    return 0;
}

/* The range of one axis over all series, so that panels of one figure compare. */
static void put_range(FILE *out, const struct spot_figure *fig, bool is_x, int most)
{
    const struct extent e = extent_of(fig, is_x);
    const double margin = is_x ? margin_of(fig, &e) : 0;

    if (!put_axis(out, fig, is_x, most) && e.low < e.high)
        fprintf(out, "set %crange [%.12g:%.12g]\n", is_x ? 'x' : 'y',
                is_x ? e.low - margin : fmin(e.low, 0), e.high + margin);
}

static void put_panel(FILE *out, const struct spot_figure *fig, size_t first)
{
    static const char *const with[] = { "lines", "steps", "points pt 7",
                                        "filledcurves fs transparent solid 0.3 noborder",
                                        "impulses dt 3" };
    static const char opaque[] = "filledcurves fs solid noborder";
    const bool has_axes[] = { put_axis(out, fig, true, TICKS_MAX),
                              put_axis(out, fig, false, TICKS_MAX) };

    put_setting(out, "title", fig->title);
    put_setting(out, "xlabel", fig->x_label);
    put_setting(out, "ylabel", fig->y_label);
    fputs("set key outside right top\nset grid ytics\nset border 3\nset tics nomirror\n", out);
    for (size_t i = 0; i < fig->n_series; i++)
        put_data(out, &fig->series[i], first + i);
    put_no_data(out, is_empty(fig));
    fputs("plot", out);
    for (size_t i = 0; i < fig->n_series; i++) {
        const struct spot_series *s = &fig->series[i];

        fputs(i ? ", " : " ", out);
        put_source(out, s, first + i);
        fprintf(out, " with %s lc rgb '%s'",
                s->style == SPOT_SERIES_BAND && s->colour ? opaque : with[s->style],
                s->colour ? s->colour : colour[i % COLOURS]);
        if (i >= COLOURS && s->style <= SPOT_SERIES_STEP) /* the same colours, in dashes */
            fprintf(out, " dt %zu", i / COLOURS + 1);
        if (s->width > 0 && s->style != SPOT_SERIES_BAND)
            fprintf(out, s->style == SPOT_SERIES_DOT ? " ps %g" : " lw %g", s->width);
        if (*name_of(s)) {
            fputs(" title ", out);
            put_quoted(out, name_of(s));
        } else {
            fputs(" notitle", out);
        }
    }
    putc('\n', out);
    end_no_data(out, is_empty(fig));
    reset_axes(out, has_axes);
}

static void put_text_terminal(FILE *out, const struct spot_figure *fig, int rows)
{
    enum { TOP = 2, BOTTOM = 3 };
    struct spot_axis a;

    if (find_axis(fig, false, TICKS_MAX, &a))
        rows = (rows + a.n - 1) / a.n * a.n; /* the same number of rows for each mark */
    fprintf(out, "set terminal dumb 80,%d noenhanced\nset tmargin %d\nset bmargin %d\n",
            rows + 1 + TOP + BOTTOM, TOP, BOTTOM);
}

/* In text, events are drawn within each other series, in gnuplot's second line character. */
static void put_marks(FILE *out, const struct spot_figure *fig, size_t first)
{
    for (size_t i = 0; i < fig->n_series; i++)
        if (fig->series[i].style == SPOT_SERIES_MARK && has_points(&fig->series[i]))
            fprintf(out, ", $s%zu with impulses lt 2", first + i);
    putc('\n', out);
}

static void put_title(FILE *out, const struct spot_figure *fig, const struct spot_series *s)
{
    char title[256];
    size_t n = (size_t)snprintf(title, sizeof(title), "%s", s->label);

    for (size_t i = 0; i < fig->n_series && n < sizeof(title); i++)
        if (fig->series[i].style == SPOT_SERIES_MARK)
            n += (size_t)snprintf(title + n, sizeof(title) - n, " (#: %s)", fig->series[i].label);
    put_setting(out, "title", title);
}

/* The last series that has a drawing. */
static size_t last_drawn(const struct spot_figure *fig)
{
    size_t i = fig->n_series;

    while (--i && fig->series[i].style == SPOT_SERIES_MARK)
        ;
    return i;
}

/* Text has no colours or areas: each of several series is drawn separately, with its name as the
 * title, and a band as two lines; all on the same axes. */
static void put_multiples(FILE *out, const struct spot_figure *fig, size_t first)
{
    const size_t last = last_drawn(fig);

    fputs("set print '-'\nprint ", out); /* not stderr */
    put_quoted(out, fig->title);
    putc('\n', out);
    put_text_terminal(out, fig, 6);
    fputs("unset key\nset border 3\nset tics nomirror\nunset xlabel\n", out);
    put_setting(out, "ylabel", fig->y_label);
    put_range(out, fig, true, TICKS_MAX);
    put_range(out, fig, false, TICKS_MAX);
    for (size_t i = 0; i < fig->n_series; i++)
        put_data(out, &fig->series[i], first + i);
    for (size_t i = 0; i <= last; i++) {
        const struct spot_series *s = &fig->series[i];
        const size_t at = first + i;

        if (s->style == SPOT_SERIES_MARK)
            continue;
        put_title(out, fig, s);
        if (i == last)
            put_setting(out, "xlabel", fig->x_label);
        put_no_data(out, !has_points(s));
        if (!has_points(s))
            fputs("plot 1/0 with lines lt 1", out);
        else if (s->style == SPOT_SERIES_BAND)
            fprintf(out, "plot $s%zu using 1:2 with steps lt 1, $s%zu using 1:3 with steps lt 1",
                    at, at);
        else
            fprintf(out, "plot $s%zu with %s lt 1", at,
                    s->style == SPOT_SERIES_DOT    ? "points"
                    : s->style == SPOT_SERIES_LINE ? "lines"
                                                   : "steps");
        put_marks(out, fig, first);
        end_no_data(out, !has_points(s));
    }
    fputs("set autoscale\nset tics autofreq\n", out);
}

static void put_text(FILE *out, const struct spot_figure *panel, size_t n_panel)
{
    size_t first = 0;

    for (size_t i = 0; i < n_panel; i++) {
        if (panel[i].n_series > 1) {
            put_multiples(out, &panel[i], first);
        } else {
            put_text_terminal(out, &panel[i], 12);
            put_panel(out, &panel[i], first);
        }
        first += panel[i].n_series;
    }
}

/* Thin panels above one another. The time axis has marks and numbers only below the last one; each
 * panel's name is to its right. Marks are outside of the panels, since an area would hide some of
 * them. */
static void put_thin_panels(FILE *out, const struct spot_figure *fig)
{
    const size_t n = fig->n_series - 1;

    for (size_t i = 0; i <= n; i++)
        put_data(out, &fig->series[i], i);
    fprintf(out,
            "set multiplot layout %zu,1 margins char 9,char 20,char 4,char 3 spacing char 0.6\n",
            n);
    put_range(out, fig, true, TICKS_MAX);
    put_range(out, fig, false, THIN_TICKS_MAX);
    fputs("unset key\nset border 3\nset tics nomirror out\nset format x ''\nset xtics scale 0\n"
          "set ytics scale 0.5 font ',9'\nset grid ytics lc rgb '#dddddd'\n",
          out);
    put_setting(out, "label 1", fig->title);
    fputs("set label 1 at graph 0.5,graph 1 center offset 0,1.2\n", out);
    for (size_t i = 1; i <= n; i++) {
        if (i == 2)
            fputs("unset label 1\n", out);
        if (i == n) {
            fputs("set format x '%g'\nset xtics scale 0.5\n", out);
            put_setting(out, "xlabel", fig->x_label);
        }
        put_setting(out, "label 2", name_of(&fig->series[i]));
        fputs("set label 2 at graph 1.01,graph 0.5 left\n", out);
        if (i == (n + 1) / 2)
            put_setting(out, "ylabel", fig->y_label);
        fputs("plot $s0 with fillsteps fs solid noborder lc rgb '#d0d0d0', ", out);
        put_source(out, &fig->series[i], i);
        fprintf(out, " with %s lc rgb '%s' lw 1.5\nunset ylabel\n",
                fig->series[i].style == SPOT_SERIES_STEP ? "steps" : "lines", colour[0]);
    }
    fputs("unset multiplot\n", out);
}

static void put_head(FILE *out, const struct spot_figure *fig, const char *terminal,
                     const char *file)
{
    if (fig->made_by)
        fprintf(out, "# %s\n", fig->made_by);
    fprintf(out, "set terminal %s\n", terminal);
    if (file)
        put_setting(out, "output", file);
}

static void put_panels(FILE *out, const struct spot_figure *panel, size_t n_panel)
{
    size_t first = 0;

    if (n_panel > 1) /* keys of one width, so that the axes of all panels stand in line */
        fprintf(out, "set multiplot layout %zu,1\nset lmargin 10\nset rmargin 24\n", n_panel);
    for (size_t i = 0; i < n_panel; i++) {
        put_panel(out, &panel[i], first);
        first += panel[i].n_series;
    }
    if (n_panel > 1)
        fputs("unset multiplot\n", out);
}

/* SIGPIPE is blocked while gnuplot reads, so that its death gives an error message. */
static int feed_gnuplot(const char *script, size_t n_byte, bool is_text, struct spot_err *err)
{
    void (*const old)(int) = signal(SIGPIPE, SIG_IGN);
    FILE *pipe;
    int status;

    fflush(stdout); /* our output comes before gnuplot's */
    pipe = popen(is_text ? "exec gnuplot -" : "exec gnuplot - >/dev/null", "w");
    if (!pipe) {
        signal(SIGPIPE, old);
        return spot_err_sys(err, "cannot start gnuplot");
    }
    fwrite(script, 1, n_byte, pipe);
    status = pclose(pipe);
    signal(SIGPIPE, old);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return spot_err_set(err, SPOT_ESYS, "cannot run gnuplot; is gnuplot-nox installed?");
    if (status)
        return spot_err_set(err, SPOT_ESYS, "gnuplot failed (status %d)", status);
    return 0;
}

/* The height of the figure, with room for the key of many series. */
static int height_of(const struct spot_figure *panel, size_t n_panel)
{
    const int key = KEY_LINE * (int)panel->n_series + 80;

    return !n_panel             ? THIN_HEIGHT * (int)panel->n_series + 40
           : n_panel > 1        ? PANELS_HEIGHT * (int)n_panel
           : key > PANEL_HEIGHT ? key
                                : PANEL_HEIGHT;
}

/* n_panel 0: `panel` is one figure, drawn as thin panels (small multiples). */
static int draw(const struct spot_figure *panel, size_t n_panel, const char *path,
                struct spot_err *err)
{
    const int height = height_of(panel, n_panel);
    const size_t len = strlen(path);
    const bool is_script = len > 3 && !strcmp(path + len - 3, ".gp");
    const bool is_text = !strcmp(path, "-");
    char terminal[64], *script = NULL;
    size_t n_byte = 0;
    struct spot_out file;
    FILE *out;
    int rc = -1;

    if (spot_plot_check(path, err))
        return -1;
    terminal_for(path, height, terminal);
    if (!is_text && spot_out_is_special(path))
        return spot_err_set(err, SPOT_ESYS, "cannot replace '%s': not a regular file", path);
    /* also checks that the path is writable: after a failed `set output` gnuplot would draw to
     * stdout, among our output */
    if (spot_out_open(&file, path, err))
        return -1;
    out = open_memstream(&script, &n_byte);
    if (out && is_text) {
        put_text(out, panel, n_panel ? n_panel : 1);
    } else if (out) {
        put_head(out, panel, terminal, is_script ? NULL : file.temporary);
        if (n_panel)
            put_panels(out, panel, n_panel);
        else
            put_thin_panels(out, panel);
    }
    if (!out || fclose(out))
        spot_err_sys(err, "cannot build the plot script");
    else if (is_script)
        rc = fwrite(script, 1, n_byte, file.file) == n_byte
                 ? 0
                 : spot_err_sys(err, "cannot write '%s'", path);
    else
        rc = feed_gnuplot(script, n_byte, is_text, err);
    free(script);
    return spot_out_finish(&file, rc, err);
}

int spot_plot_check(const char *path, struct spot_err *err)
{
    char terminal[64];

    if (!*terminal_for(path, PANEL_HEIGHT, terminal))
        return spot_err_set(err, SPOT_EUSAGE, "'%s' ends in none of .svg .png .pdf .gp", path);
    return 0;
}

int spot_plot(const struct spot_figure *fig, const char *path, struct spot_err *err)
{
    return spot_plot_panels(fig, 1, path, err);
}

int spot_plot_panels(const struct spot_figure *panel, size_t n_panel, const char *path,
                     struct spot_err *err)
{
    assert(n_panel >= 1 && n_panel <= SPOT_PLOT_PANELS_MAX);
    for (size_t i = 0; i < n_panel; i++)
        assert(panel[i].n_series >= 1 && panel[i].n_series <= SPOT_PLOT_SERIES_MAX);
    return draw(panel, n_panel, path, err);
}

int spot_plot_multiples(const struct spot_figure *fig, const char *path, struct spot_err *err)
{
    assert(fig->n_series >= 2 && fig->n_series <= SPOT_PLOT_MULTIPLES_MAX);
    return draw(fig, 0, path, err);
}

bool spot_plot_takes_stdout(const char *path, const char *output)
{
    return path && !strcmp(path, "-") && (!output || !strcmp(output, "-"));
}
