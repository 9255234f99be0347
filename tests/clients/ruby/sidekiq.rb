# A job queue, Sidekiq, against a server: ruby sidekiq.rb PORT
# The file is also what the worker process loads.
ENV["REDIS_URL"] ||= "redis://127.0.0.1:#{ARGV.fetch(0)}"
require "sidekiq"
require "sidekiq/api"

# What the program `sidekiq` does.
SERVE = "require 'sidekiq/cli'; Sidekiq::CLI.instance.tap(&:parse).run"

Sidekiq.configure_server { |config| config.average_scheduled_poll_interval = 1 }

class NoteJob
  include Sidekiq::Worker
  sidekiq_options queue: "default", retry: 3
  sidekiq_retry_in { 1 }

  def perform(number, fails_once)
    Sidekiq.redis do |redis|
      raise "as planned" if fails_once && redis.incr("tries:#{number}") == 1
      redis.lpush("done", number)
    end
  end
end

class UrgentJob < NoteJob
  sidekiq_options queue: "critical"
end

def check(what, condition)
  raise what unless condition
end

def wait_for(what)
  deadline = Time.now + 60
  sleep 0.05 until yield || Time.now > deadline
  check(what, yield)
end

def main
  Sidekiq.redis(&:flushall)
  (0...100).each { |number| NoteJob.perform_async(number, number % 20 == 0) }
  UrgentJob.perform_bulk((100...200).map { |number| [number, false] })
  scheduled = (200...220).map { |number| NoteJob.perform_in(0.2, number, false) }
  check("queued", Sidekiq::Queue.new("default").size == 100 && Sidekiq::Queue.new("critical").size == 100)
  check("scheduled", Sidekiq::ScheduledSet.new.size == 20)
  check("deleted", Sidekiq::ScheduledSet.new.find_job(scheduled.last).delete)
  options = %W[-r #{File.expand_path(__FILE__)} -q critical,2 -q default -c 5 -t 1]
  worker = spawn(ENV["RUBY"] || RbConfig.ruby, "-e", SERVE, "--", *options, out: File::NULL, err: File::NULL)
  begin
    wait_for("all jobs") { Sidekiq.redis { |redis| redis.llen("done") } >= 219 }
    done = Sidekiq.redis { |redis| redis.lrange("done", 0, -1) }.map(&:to_i).sort
    check("each job once", done == (0...219).to_a)
    wait_for("statistics") { Sidekiq::Stats.new.processed >= 224 && Sidekiq::Stats.new.failed == 5 }
    check("no retries left", Sidekiq::RetrySet.new.size.zero? && Sidekiq::DeadSet.new.size.zero?)
    wait_for("a heartbeat") { Sidekiq::ProcessSet.new.size == 1 }
  ensure
    Process.kill("TERM", worker)
    Process.wait(worker)
  end
  puts "Sidekiq #{Sidekiq::VERSION}: jobs, bulk, weights of queues, scheduled jobs, retries, statistics, processes"
end

main if $PROGRAM_NAME == __FILE__
