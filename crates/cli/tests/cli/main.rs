//! The client as a process, with a server in another, which is this binary started once more: a server wants a process
//! without other threads, so that there is no test harness around it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cluster;
mod commands;
mod dialogue;
mod documentation;
mod process;
mod scans;
mod sizing;
mod terminal;
mod transfers;
mod watching;

use libtest_mimic::{Arguments, Trial};

/// A trial of each function, by its name.
macro_rules! trials {
    ($($function:path),* $(,)?) => {
        vec![$(Trial::test(stringify!($function).replace(' ', ""), || {
            $function();
            Ok(())
        })),*]
    };
}

fn main() {
    process::serve_if_asked();
    let trials = trials![
        cluster::clusters_are_made_and_nodes_come_and_go,
        cluster::a_node_that_is_gone_is_removed,
        cluster::slots_move_while_clients_write,
        cluster::an_interrupted_reshard_leaves_no_slot_open,
        cluster::a_node_that_vanishes_leaves_one_slot_to_be_mended,
        cluster::open_slots_and_slots_without_owner_are_mended,
        cluster::keys_left_behind_are_brought_to_their_owner,
        cluster::keys_that_both_nodes_have_are_compared,
        cluster::keys_of_a_single_server_are_imported,
        cluster::redirections_are_followed_and_shown,
        cluster::a_server_of_its_own_is_no_cluster,
        commands::replies_in_each_style,
        commands::arguments_from_everywhere,
        commands::repetitions,
        commands::exit_codes_and_errors,
        commands::names_of_the_program,
        commands::ways_to_a_server,
        commands::messages_and_pushes,
        commands::replicas_and_monitors_show_commands,
        dialogue::lines_and_their_replies,
        dialogue::subscriptions_and_commands_between_them,
        dialogue::what_monitor_shows_ends_with_an_interrupt,
        dialogue::lost_connections_are_made_anew_with_their_database,
        dialogue::interrupts_end_what_is_not_watched,
        documentation::built_in_commands_are_current,
        documentation::hints_need_no_server,
        scans::keys_are_listed,
        scans::the_biggest_keys_are_found,
        scans::readers_may_leave_early,
        scans::the_hottest_keys_are_found,
        scans::statistics_of_keys,
        sizing::estimates_are_what_the_data_takes,
        sizing::large_keys_are_estimated_by_some_of_their_elements,
        sizing::samples_stand_for_all_keys,
        sizing::what_cannot_be_measured_is_said,
        sizing::a_signal_ends_the_server_too,
        terminal::typing_is_helped,
        terminal::long_replies_are_paged,
        terminal::keys_interrupt_the_wait_for_messages,
        terminal::long_work_shows_how_far_it_is,
        transfers::snapshots_are_written_whole,
        transfers::replicas_are_shown_what_comes,
        transfers::commands_in_the_protocol_are_piped,
        watching::latencies_are_summed_up,
        watching::the_machine_itself_is_measured,
        watching::statistics_in_rows,
        watching::caches_are_tried,
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
